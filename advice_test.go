package grpo

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/advice"
	"github.com/seed-7879b91d/grpo/reward"
)

func TestTooManyRewardErrorsStopTheRun(t *testing.T) {
	failing := func(_ context.Context, c reward.Completion) (reward.Score, error) {
		return reward.Score{Excluded: reward.ExcludedInfra, Verdict: reward.INFRA}, nil
	}
	tr, _ := setup{words: []string{"eval_every=-1"}, options: []Option{WithGrader(reward.GraderFunc(failing))}}.open(t)
	require.ErrorContains(t, tr.Run(t.Context()), "step 1: 12 of 12 completions could not be scored: fix the reward first")
}

// The rules are given what the step says.
func TestEvidenceIsTheStepsOwn(t *testing.T) {
	m := Metrics{Step: 7, RewardStats: RewardStats{MeanReward: 0.5, FormatRate: 0.75},
		GroupStats: GroupStats{GroupsTotal: 8, GroupsSkipped: 3, AllGood: 1},
		CompletionStats: CompletionStats{Completions: 64, Truncated: 0.25, RewardErrors: 5, FileErrors: 4, unscored: "why",
			Verdicts: map[reward.Verdict]int{reward.TLE: 6}}, Update: Update{Updated: true, LearningRate: 1e-3}}
	m.Stats.KL2, m.Drift.KL2 = 0.01, 0.02
	want := advice.Step{Number: 7, Reward: 0.5, Groups: 8, Skipped: 3, AllGood: true, Updated: true, KL: 0.02, LearningRate: 1e-3,
		Format: 0.75, Truncated: 0.25, Completions: 64, TimedOut: 6, Unscored: 5, FileErrors: 4, Why: "why", Seconds: 10, Waited: 2}
	require.Equal(t, want, evidence(m, Timing{Total: 10, Score: 2}))
}
