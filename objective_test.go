package grpo

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/objective"
	"github.com/seed-7879b91d/grpo/internal/recipe"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/reward"
)

// certainReference is a reference policy with log-probability 0 for every token: a token's divergence is its own log-probability.
type certainReference struct{}

func (certainReference) ScoreBase(_ context.Context, datums []model.Datum, _ float32) (scores [][]float32, err error) {
	for _, d := range datums {
		scores = append(scores, make([]float32, len(d.Targets)))
	}
	return scores, nil
}

// With a penalty in the reward, each token has an advantage of its own, also after a completion that is left out: the reward minus the
// divergences from the token on, normalised to mean 0 and standard deviation 1.
func TestAdvantagesOfTokens(t *testing.T) {
	drawn := func(logprobs ...float32) Rollout {
		return Rollout{Tokens: make([]int32, len(logprobs)), LogProbs: logprobs}
	}
	g := Group{Prompt: Prompt{Tokens: []int32{3, 4}}, Rollouts: []Scored{
		{drawn(-9, -9), reward.Score{Excluded: reward.ExcludedInfra}}, {drawn(-1, -2, -3), reward.Score{Reward: 1}},
		{drawn(-4), reward.Score{Reward: -2}}}}
	r := &recipe.Recipe{Compare: objective.Comparison{Shaping: objective.Shaping{KL: 0.5}}}
	groups, err := compare(t.Context(), []Group{g}, r, certainReference{})
	require.NoError(t, err)
	returns, mean, squares := []float64{1 + 3, 1 + 2.5, 1 + 1.5, -2 + 2}, 0.0, 0.0
	for _, x := range returns {
		mean += x / 4
	}
	for _, x := range returns {
		squares += (x - mean) * (x - mean) / 4
	}
	all := datums(groups)
	require.Len(t, all, 2)
	for i, want := range [][]float64{returns[:3], returns[3:]} {
		require.Zero(t, all[i].Advantages[0], "the prompt has no advantage")
		sum := 0.0
		for k, x := range want {
			require.InDelta(t, (x-mean)/math.Sqrt(squares), all[i].Advantages[1+k], 1e-6)
			sum += (x - mean) / math.Sqrt(squares)
		}
		require.InDelta(t, sum/float64(len(want)), groups[0].Advantages[1+i], 1e-9)
	}
	require.Zero(t, groups[0].Advantages[0])
}

// The divergence from the reference, in the loss or in the reward, is 0 before the first update, and positive after it. On-policy
// importance ratios are 1.
func TestTheReferenceIsTheModelWithoutItsAdapter(t *testing.T) {
	for _, in := range []string{"loss", "reward"} {
		tr, l := setup{words: []string{"max_steps=2", "eval_every=-1", "kl_coef=0.1", "kl_in=" + in, "tis=sequence", "num_iterations=2",
			"entropy_coef=0.01", "advantage_clip=0.01", "reward_clip=0.3", "overlong_penalty=0.1"}}.open(t)
		before := tr.Policy().Progress
		passes := 0
		tr.learner.Policy.Progress = func(n, tokens int) { passes += n; before(n, tokens) }
		run(t, tr)
		first, second := l.metrics[0], l.metrics[1]
		// Each datum is trained on twice and scored by the reference once.
		require.Equal(t, 3*(first.Datums+second.Datums), passes)
		if in == "reward" {
			require.Zero(t, *first.KLRef, "0 before the first update, when policy and reference agree")
		} else {
			require.Equal(t, passes, l.trained, "passes of the reference count as progress")
			require.Positive(t, *first.KLRef, "the divergence is measured at the second update")
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

// Completions that are no better than others of their group are left out, and counted.
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
	require.False(t, (&Group{Advantages: []float64{0}, positiveOnly: true}).keptBySign(0))
}
