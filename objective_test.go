package grpo

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A penalty for leaving the reference, in the loss or in the reward, is measured: nothing before the first update, and
// something after it. On policy no correction is one.
func TestTheReferenceIsTheModelWithoutItsAdapter(t *testing.T) {
	for _, in := range []string{"loss", "reward"} {
		tr, l := setup{words: []string{"max_steps=2", "eval_every=-1", "kl_coef=0.1", "kl_in=" + in, "tis=sequence", "num_iterations=2",
			"entropy_coef=0.01", "advantage_clip=0.01", "reward_clip=0.3", "overlong_penalty=0.1"}}.open(t)
		before := tr.Policy().Progress
		passes := 0
		tr.learner.Policy.Progress = func(n, tokens int) { passes += n; before(n, tokens) }
		run(t, tr)
		first, second := l.metrics[0], l.metrics[1]
		// Each datum is trained on twice and scored by the reference once; in the reward, which is before, all are.
		require.Equal(t, 3*(first.Datums+second.Datums), passes)
		if in == "reward" {
			require.Zero(t, *first.KLRef, "of the completions, which the reference could have drawn as well")
		} else {
			require.Equal(t, passes, l.trained, "the reference is some of the work")
			require.Positive(t, *first.KLRef, "of the second update")
		}
		require.NotZero(t, *second.KLRef)
		require.Equal(t, []float64{1, 0}, []float64{*first.TISMean, *first.TISShare})
		require.Positive(t, *first.AdvantagesClipped)
		require.Positive(t, *first.Overlong)
		require.NotNil(t, first.RewardsClipped)
		require.Nil(t, first.ClipLow, "the loss clips nothing")
		require.Zero(t, first.OnPolicy)
	}
}

// Completions that are no better than the others of their group are left out, and counted.
func TestPositiveOnly(t *testing.T) {
	tr, l := setup{words: []string{"max_steps=1", "eval_every=-1", "positive_only=true"}, options: []Option{
		WithGroups(func(_ int, groups []Group) error {
			for _, d := range datums(groups) {
				require.Positive(t, d.Advantages[len(d.Advantages)-1])
			}
			return nil
		})}}.open(t)
	run(t, tr)
	require.Positive(t, *l.metrics[0].NotLearnt)
	require.Equal(t, 12, l.metrics[0].Datums+*l.metrics[0].NotLearnt)
	require.False(t, (&Group{Advantages: []float64{0}, positiveOnly: true}).wanted(0))
}
