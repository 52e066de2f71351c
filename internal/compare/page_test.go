package compare

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/stats"
)

// A page explains its columns, and intervals if there are some.
func TestThePageExplainsWhatItHas(t *testing.T) {
	c := several(t)
	text, err := c.Page().HTML()
	require.NoError(t, err)
	require.NotContains(t, string(text), `<th scope="col"></th>`)
	require.Contains(t, c.Page().Detail, "Each run is compared only with a")
	for i := range c.Pairs {
		c.Pairs[i].Greedy = nil
	}
	require.Empty(t, c.Page().Detail)
	require.Equal(t, "4 runs, not compared problem by problem", c.Page().Title, "they may be of the same problems for all that is known")
}

// The headline names a run that is significantly better, even beside one with a larger gain that may be chance.
func TestTheHeadlineIsWhatIsSure(t *testing.T) {
	won := func(right, lost int) stats.Judged { // of 100 problems; the base solves the first 50
		return judged(4, slices.Concat(slices.Repeat([]float64{0}, lost), slices.Repeat([]float64{1}, 50-lost),
			slices.Repeat([]float64{1}, right), slices.Repeat([]float64{0}, 50-right))...)
	}
	run := func(right, lost int) writtenRun {
		return writtenRun{heldOut: "h", model: "m", steps: 4, evaluations: []stats.Judged{won(right, lost)}}
	}
	base, wild, steady, worse := run(0, 0), run(30, 21), run(8, 0), run(0, 20)
	require.Equal(t, "c does better than a", written(t, base, wild, steady).Page().Title)
	require.Equal(t, "c does better than a", written(t, base, wild, steady, worse).Page().Title)
	require.Equal(t, "a is not surpassed", written(t, base, wild, worse).Page().Title)
	require.Equal(t, "No run differs from a by more than chance", written(t, base, wild).Page().Title)

	for i, run := range []*writtenRun{&base, &wild} { // half of the samples of one run are right, all of the other's
		j := &run.evaluations[0]
		n := len(j.Problems)
		j.Sampled = &stats.Tried{Problems: j.Problems, Judged: slices.Repeat([]int{2}, n), Right: slices.Repeat([]int{1 + i}, n)}
	}
	require.Equal(t, "Greedily, no run differs from a by more than chance", written(t, base, wild).Page().Title)
}
