package grpo

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/autopilot"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/snapshot"
	"github.com/seed-7879b91d/grpo/reward"
)

// A run that goes back has its earlier state: the dealt problems, the evaluations, the advice, and the record. The actions of the
// autopilot stay, and it learns which steps were undone.
func TestAllGoesBackButTheAutopilot(t *testing.T) {
	dir := t.TempDir()
	tr, _ := setup{dir: dir, words: withPilot("learning_rate=0.0001", "max_steps=5", "save_every=1", "keep_last=0", "eval_every=1")}.open(t)
	require.NoError(t, tr.Run(t.Context()))
	want, err := snapshot.Read(checkpoint(dir, 2))
	require.NoError(t, err)
	did := readDeeds(t, dir)
	require.NotEmpty(t, did)
	require.NotEqual(t, want.Cursor, tr.pool.Cursor())
	require.NotZero(t, want.Advisor)
	require.NotEqual(t, want.Advisor, tr.advisor)
	tr.broken = errors.New("a step was lost")
	deed := []autopilot.Decision{{}}
	_, err = tr.goBack(2, deed)
	require.NoError(t, err)

	require.Equal(t, want.Cursor, tr.pool.Cursor())
	require.Equal(t, []any{2, want.Evaluated}, []any{tr.step, tr.evaluated})
	require.Equal(t, want.Advisor, tr.advisor)
	require.NoError(t, tr.broken)
	var undone []int
	for _, u := range deed[0].Undone {
		undone = append(undone, u.Step)
	}
	require.Equal(t, []int{3, 4, 5}, undone)
	first, last := tr.Evaluations()
	require.LessOrEqual(t, last.Step, 2)
	require.NotEmpty(t, first.GreedyTry.Groups, "the reference of later comparisons")
	left, err := jsonl.OfKind[Metrics](tr.record.File(metricsFile), "")
	require.NoError(t, err)
	require.Len(t, left, 2)
	require.Equal(t, did, readDeeds(t, dir))

	_, err = tr.goBack(0, deed)
	require.NoError(t, err)
	first, last = tr.Evaluations()
	require.Same(t, first, last)
	require.NotEmpty(t, last.GreedyTry.Groups)
}

// A run that continues without its autopilot has the autopilot's earlier actions on record, but not its later ones; completions sampled
// ahead with its settings are discarded.
func TestWithoutItsAutopilotARunGoesBackToo(t *testing.T) {
	race.SkipCovered(t)
	s := setup{dir: t.TempDir(), words: withPilot("pipeline=full", "learning_rate=0.0001", "max_steps=6", "save_every=1", "keep_last=0")}
	tr, _ := s.open(t)
	run(t, tr)
	did := readDeeds(t, s.dir)
	require.NotEmpty(t, did)
	first := did[0].Step
	require.Less(t, first, 6)
	s.words = override(s.words, []string{"autopilot=false", "resume=" + checkpoint(s.dir, first-1)})
	tr, _ = s.open(t)
	run(t, tr)
	require.Empty(t, readDeeds(t, s.dir))

	s = setup{dir: t.TempDir(), words: withPilot("pipeline=full", "learning_rate=0.0001")}
	tr, _ = s.open(t)
	tr.pilot.Now[autopilot.Temperature], tr.pilot.Now[autopilot.Completions] = 1.3, 4 // as if it had tried these
	tr.putInForce()
	m, err := tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
	require.True(t, m.Updated)
	require.Equal(t, 2*4, m.Completions)
	require.Zero(t, m.OnPolicy, "completions are drawn at the temperature in force")
	_, err = tr.Save(t.Context())
	require.NoError(t, err)
	require.NoError(t, tr.Close())
	for _, on := range []bool{true, false} {
		s.words = override(s.words, []string{fmt.Sprintf("autopilot=%v", on)})
		tr, _ = s.open(t)
		require.Equal(t, on, tr.ahead != nil)
		require.NoError(t, tr.Close())
	}
}

// The autopilot does not measure completions that the machine failed to judge. With a program's own grader it measures the reward, since
// nothing need be "correct".
func TestWhatTheAutopilotMeasures(t *testing.T) {
	var lost string
	grader := func(ctx context.Context, c reward.Completion) (reward.Score, error) {
		if c.Problem.ID == lost {
			return reward.Score{Excluded: reward.ExcludedInfra}, nil
		}
		return reward.Score{Reward: 0.25}, nil
	}
	tr, _ := setup{dir: t.TempDir(), words: withPilot(), options: []Option{WithGrader(reward.GraderFunc(grader))}}.open(t)
	require.Greater(t, len(tr.checks), 1)
	lost = tr.checks[0].ID
	found, err := tr.measure(t.Context())
	require.NoError(t, err)
	require.Len(t, found.Problems, len(tr.checks)-1)
	require.NotContains(t, found.Problems, lost)
	for _, value := range found.Correct {
		require.Equal(t, 0.25, value)
	}
}
