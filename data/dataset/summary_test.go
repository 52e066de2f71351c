package dataset

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
)

func TestHistogram(t *testing.T) {
	h := newHistogram(2, 5)
	for _, v := range []int{0, 1, 2, 4, 5, 99} {
		h.add(v)
	}
	require.Equal(t, []int{2, 2, 2}, h.Counts)
	require.Equal(t, []string{"0-1", "2-4", "5+"}, []string{h.Label(0), h.Label(1), h.Label(2)})
}

func TestSummary(t *testing.T) {
	set := open(t, write(t, t.TempDir(), "mix.jsonl", allShapes()), Options{})
	sum := set.Summary()
	require.Equal(t, []Group{{"mine", data.Stdin, 1, 1}, {"mix", data.Stdin, 6, 8}, {"mix", data.Call, 7, 11}}, sum.Groups)
	require.Len(t, sum.Refusals, 3)
	require.Equal(t, Duplicate, sum.Refusals[0].Reason)
	require.Equal(t, 1, sum.Refusals[0].Rows)
}
