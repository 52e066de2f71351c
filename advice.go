package grpo

import (
	"errors"

	"github.com/seed-7879b91d/grpo/internal/advice"
	"github.com/seed-7879b91d/grpo/internal/judging"
	"github.com/seed-7879b91d/grpo/reward"
)

// Advice is a finding about the run, with a remedy to try.
type Advice = advice.Advice

// evidence collects what the advisor looks at after a step.
func evidence(m Metrics, t Timing, r advice.Reward) advice.Step {
	return advice.Step{Number: m.Step, Reward: m.MeanReward, Groups: m.GroupsTotal, Skipped: m.GroupsSkipped,
		AllBad: m.AllBad == 1, AllGood: m.AllGood == 1, Updated: m.Updated, KL: max(m.Stats.KL2, m.Drift.KL2), LearningRate: m.LearningRate,
		Format: m.FormatRate, Truncated: m.Truncated, Completions: m.Completions, TimedOut: m.Verdicts[reward.TLE],
		Unscored: m.RewardErrors, FileErrors: m.FileErrors, Why: m.Unscored, CheckerErrors: m.Checkers, CheckerNote: m.CheckerFails,
		RewardKind: r, Correct: m.MeanCorrect, Seconds: t.Total, Waited: t.Score}
}

// rewardKind tells the advisor what kind of reward the run has: it suggests partial credit only where rewards are binary.
func (t *Trainer) rewardKind() advice.Reward {
	switch {
	case t.custom.grader != nil:
		return advice.OwnReward
	case t.cfg.Reward == "correct":
		return advice.Binary
	}
	return advice.Graded
}

// fatalError is the error that ends a run after fatal advice.
func fatalError(a Advice) error {
	finding := a.Finding + "; try " + a.Try
	if a.Rule == advice.RewardErrors {
		return &judging.StepError{Finding: finding}
	}
	return errors.New(finding)
}
