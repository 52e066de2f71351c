package grpo

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/reward"
)

// What the machine failed to judge in an evaluation is neither right nor wrong; what was cut off is wrong.
func TestAnEvaluationLeavesOutWhatWasNotJudged(t *testing.T) {
	grade := func(s reward.Score) Evaluation {
		scores := map[string]reward.Score{"h0": {Excluded: reward.ExcludedInfra, Verdict: reward.INFRA}, "h1": s,
			"h2": {Verdict: reward.AC, Reward: 1, Components: reward.Components{Correct: 1}}}
		byProblem := func(_ context.Context, c reward.Completion) (reward.Score, error) { return scores[c.Problem.ID], nil }
		tr, _ := setup{options: []Option{WithGrader(reward.GraderFunc(byProblem))}}.open(t)
		e, err := tr.Evaluate(t.Context())
		require.NoError(t, err)
		return e
	}
	e := grade(reward.Score{Verdict: reward.WA})
	require.Equal(t, 0.5, e.Greedy)
	require.Equal(t, 1.0, e.FormatRate)
	require.Equal(t, 3, e.NotJudged, "one greedy and two sampled")
	require.Equal(t, 0.5, e.PassAt1)
	require.Equal(t, 0.5, e.BestOfK)

	e = grade(reward.Score{Excluded: reward.ExcludedTruncated})
	require.Equal(t, 0.5, e.Greedy)
	require.Equal(t, 0.5, e.FormatRate)
	require.Equal(t, 0.5, e.PassAtK)
	require.Equal(t, 3, e.NotJudged)
}

// An evaluator has no optimizer and reads no problems to train on; it finds what the run's own evaluation found.
func TestAnEvaluatorAgreesWithTheRun(t *testing.T) {
	dir := t.TempDir()
	tr, l := setup{dir: dir, words: []string{"max_steps=4"}}.open(t)
	require.NoError(t, tr.Run(t.Context()))
	e, err := OpenRun(t.Context(), dir, backend(t, 0), nil, func(c *configs.Config) error {
		c.Data = "/is/not/there"
		return nil
	}, WithGrader(reward.GraderFunc(vowels)))
	require.NoError(t, err)
	found, err := e.Evaluate(t.Context())
	require.NoError(t, err)
	require.NoError(t, e.Close())
	want := l.evals[len(l.evals)-1]
	require.Equal(t, want.Greedy, found.Greedy)
	require.Equal(t, want.Sampled, found.Sampled)
	require.Equal(t, 4, found.Step)
}
