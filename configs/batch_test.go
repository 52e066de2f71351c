package configs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBatch(t *testing.T) {
	for _, c := range []struct{ words, want string }{
		{"", "8 prompts × 16 completions"},
		{"batch_size=128 group_size=8", "8 prompts × 16 completions"},
		{"group_size=4 batch_size=64", "4 prompts × 16 completions"},
		{"group_size=16", "16 prompts × 8 completions"},
		{"batch_size=64", "8 prompts × 8 completions"},
		{"prompts_per_step=1", "1 prompt × 16 completions"},
		{"completions_per_prompt=4", "8 prompts × 4 completions"},
		{"prompts_per_step=4 batch_size=8", "4 prompts × 2 completions"},
		{"completions_per_prompt=4 batch_size=8", "2 prompts × 4 completions"},
		{"group_size=2 completions_per_prompt=4", "2 prompts × 4 completions"},
		{"group_size=2 prompts_per_step=2", "2 prompts × 16 completions"},
		{"group_size=2 prompts_per_step=2 completions_per_prompt=3 batch_size=6", "2 prompts × 3 completions"},

		{"batch_size=100", "batch_size=100: that number of completions does not divide among 8 prompts (group_size); type batch_size=96 or 104"},
		{"batch_size=4", "batch_size=4: that number of completions does not divide among 8 prompts (group_size); type batch_size=8"},
		{"group_size=24", "batch_size=128: that number of completions does not divide among 24 prompts (group_size); type batch_size=120 or 144"},
		{"batch_size=9 completions_per_prompt=4",
			"batch_size=9: that number of completions does not divide among prompts of 4 completions; type batch_size=8 or 12"},
		{"group_size=8 prompts_per_step=4", "prompts_per_step=4 and group_size=8 both count the problems of a step; keep one"},
		{"batch_size=128 prompts_per_step=8 completions_per_prompt=8",
			"batch_size=128 contradicts 8 problems with 8 completions each, which make 64; leave batch_size out"},
		{"batch_size=0", "batch_size: found 0, expected 1 to 1048576; type batch_size=128"},
		{"group_size=x", `group_size: found "x", expected a whole number`},
		{"completions_per_prompt=1",
			"completions_per_prompt: found 1, expected 2 or more: a completion is compared with others of its prompt; " +
				"type completions_per_prompt=16"},
	} {
		got, err := Load(Source{Overrides: strings.Fields(c.words)})
		if err != nil {
			require.EqualError(t, err, c.want, c.words)
			continue
		}
		require.Equal(t, c.want, got.Batch(), c.words)
	}
}
