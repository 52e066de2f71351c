package grpo

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/advice"
	"github.com/seed-7879b91d/grpo/internal/autopilot"
	"github.com/seed-7879b91d/grpo/optim"
	"github.com/seed-7879b91d/grpo/reward"
)

func TestTooManyRewardErrorsStopTheRun(t *testing.T) {
	failing := func(_ context.Context, c reward.Completion) (reward.Score, error) {
		return reward.Score{Excluded: reward.ExcludedInfra, Verdict: reward.INFRA}, nil
	}
	tr, _ := setup{words: []string{"eval_every=-1"}, options: []Option{WithGrader(reward.GraderFunc(failing))}}.open(t)
	require.ErrorContains(t, tr.Run(t.Context()), "step 1: 12 of 12 completions could not be scored; try fixing that first")
}

// The advice rules see the step's own metrics.
func TestEvidenceIsTheStepsOwn(t *testing.T) {
	m := Metrics{Step: 7, RewardStats: RewardStats{MeanReward: 0.5, MeanCorrect: 0.125, FormatRate: 0.75},
		GroupStats: GroupStats{GroupsTotal: 8, GroupsSkipped: 3, AllGood: 1},
		CompletionStats: CompletionStats{Completions: 64, Truncated: 0.25, RewardErrors: 5, FileErrors: 4, Unscored: "why", Checkers: 3,
			CheckerFails: "how",
			Verdicts:     map[reward.Verdict]int{reward.TLE: 6}}, Update: Update{Updated: true, LearningRate: 1e-3}}
	m.Stats.KL2, m.Drift.KL2 = 0.01, 0.02
	want := advice.Step{Number: 7, Reward: 0.5, Groups: 8, Skipped: 3, AllGood: true, Updated: true, KL: 0.02, LearningRate: 1e-3,
		Format: 0.75, Truncated: 0.25, Completions: 64, TimedOut: 6, Unscored: 5, FileErrors: 4, Why: "why", CheckerErrors: 3, CheckerNote: "how",
		RewardKind: advice.Graded, Correct: 0.125, Seconds: 10, Waited: 2}
	require.Equal(t, want, evidence(m, Timing{Total: 10, Score: 2}, advice.Graded))
}

// They also see the state of the run: how many steps it has made itself, the peak learning rate, and the number of updates behind Adam's
// moments.
func TestAStepIsJudgedAsOneOfItsRun(t *testing.T) {
	tr, _ := setup{words: []string{"max_steps=510", "learning_rate=0.002"}}.open(t)
	tr.start, tr.pilot = 10, &autopilot.Pilot{Aims: 50}
	m := Metrics{Step: 11, Update: Update{Updated: true, LearningRate: 0.001}}
	m.Stats.KL2 = 0.02
	for _, updates := range []int{5, 6} { // the first updates say nothing about the moments
		require.NoError(t, tr.learner.Adam.Resume(&optim.State{Steps: updates}))
		require.NoError(t, tr.conclude(m, Timing{}, nil))
	}
	require.Len(t, tr.pilot.Paces, 1)
	require.InDelta(t, 500*math.Sqrt(2*0.02)*2, tr.pilot.Paces[0], 1e-9)
}

// A checker that fails on answers is reported at once, and the problems are not blamed.
func TestACheckerThatFailsIsSeen(t *testing.T) {
	dir := t.TempDir()
	train := filepath.Join(dir, "train.jsonl")
	var text strings.Builder
	for i := range 4 {
		fmt.Fprintf(&text, `{"id":"t%d","prompt":"Define compute(x), which takes an integer x and returns x plus %d.","fn_name":"compute",`+
			`"checker":"def check(i, o, e):\n    raise ValueError(3)\n","tests":[{"args":[1],"returns":%d}]}`+"\n", i, i+1, i+2)
	}
	require.NoError(t, os.WriteFile(train, []byte(text.String()), 0o644))
	l := &listener{}
	tr := open(t, l, "run_dir="+filepath.Join(dir, "run"), "data="+train, "eval_every=-1", "max_steps=4", "save_every=4")
	run(t, tr)
	failed := 0
	for _, m := range l.metrics {
		failed += m.Checkers
	}
	first := l.metrics[0]
	require.NotZero(t, first.Checkers)
	require.Contains(t, first.Summary(Timing{}), fmt.Sprintf("checkers failed on %d", first.Checkers))
	require.Contains(t, strings.Join(l.warnings, "\n"), "answers, which count as wrong; the first time: RTE ValueError: 3")
	require.Equal(t, "checker errors", l.advice[0].Rule)
	require.Equal(t, fmt.Sprintf("checkers failed on %d of 8 answers, which count as wrong; the first: checker: RTE ValueError: 3",
		first.Checkers), l.advice[0].Finding)
	require.Equal(t, "checker errors", lines(t, dir, "run", runLogFile)[0]["rule"])
	for _, a := range l.advice {
		require.NotEqual(t, "all groups wrong", a.Rule)
	}
}

// If a program's own grader never says "correct", the advice says so, and does not name settings that such a grader ignores.
func TestAnOwnGraderIsTold(t *testing.T) {
	pays := func(value func(reward.Completion) float64) *listener {
		grade := func(_ context.Context, c reward.Completion) (reward.Score, error) {
			return reward.Score{Reward: value(c)}, nil
		}
		tr, l := setup{words: []string{"eval_every=-1", "max_steps=6"}, options: []Option{WithGrader(reward.GraderFunc(grade))}}.open(t)
		require.NoError(t, tr.Run(t.Context()))
		return l
	}
	count := func(l *listener, rule string) (n int) {
		for _, a := range l.advice {
			require.NotContains(t, a.Try, "reward=fraction")
			require.NotEqual(t, "all groups wrong", a.Rule)
			if a.Rule == rule {
				n++
			}
		}
		return n
	}
	l := pays(func(c reward.Completion) float64 { return float64(len(c.Text)) })
	require.Equal(t, 1, count(l, "nothing is called correct"))
	l = pays(func(reward.Completion) float64 { return 0 })
	require.Zero(t, count(l, "nothing is called correct"))
	require.NotZero(t, count(l, "no group differs"))
}
