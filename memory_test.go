package grpo

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/cputime"
)

// A run that no machine has enough memory for is refused at once, with the setting to change.
func TestARunThatCannotFitIsRefused(t *testing.T) {
	before := cputime.Used()
	_, _, err := setup{words: []string{"max_rows=2000000000"}}.tryOpen(t)
	require.Less(t, cputime.Used()-before, 5*time.Second)
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, "max_rows=2000000000: this run needs ")
	require.ErrorContains(t, err, "; the largest that fits is max_rows=")
}

// The plan says what the memory is for, and a run allocates what its plan says.
func TestThePlanSaysWhatTheMemoryIsFor(t *testing.T) {
	tr, _ := setup{words: []string{"max_steps=3", "warmup_steps=9"}}.open(t)
	text := strings.Join(tr.Plan(), "\n")
	require.Contains(t, text, ", 3 steps; the learning rate rises to the end (warmup_steps=9) and comes to ")
	for _, name := range []string{"weights ", "adapter ", "moments ", "activations ", "scorer ", "cache ", "sampler ", "report ", "free: "} {
		require.Contains(t, text, name)
	}
	require.NotContains(t, text, "sandbox 0", "a custom grader needs no sandbox")
	planned := tr.sampling.memory
	require.InEpsilon(t, tr.policy.WeightBytes(), planned.BytesOf("weights"), 0.02)
	require.Equal(t, tr.sampling.engine.CacheBytes, planned.Sampler.CacheBytes)
}
