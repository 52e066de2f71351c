package grpo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/stats"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/reward"
)

// same returns the grader unchanged.
func same(g reward.Grader) reward.Grader { return g }

// ownLoss is a loss of the program's own.
func ownLoss(s *model.LossSequence) float64 {
	for i := range s.Grad {
		s.Grad[i] = -s.Weight[i] * s.Advantage[i]
	}
	return 0
}

// A run continues with the program's own parts that it began with, and with others only if that is allowed.
func TestARunThatLosesItsOwnPartsIsRefused(t *testing.T) {
	race.SkipCovered(t)
	type change struct {
		key         string
		before, now []Option
		refused     string
		sandbox     bool // reopened without the own grader
	}
	for _, c := range race.FirstOnly([]change{
		{"reward", nil, []Option{WrapGrader(same)}, "reward: the program's own wrapper (WrapGrader), before nothing around", false},
		{"reward", nil, []Option{WithGrader(nil)}, "reward: that of the settings, before the program's own grader (WithGrader)", true},
		{"advantage", []Option{WithAdvantage(StdAdvantages)}, nil, "advantage: that of the settings, before", false},
		{"loss", nil, []Option{WithLoss(ownLoss)}, "loss: the program's own loss (WithLoss), before that of the settings", false},
	}...) {
		s := setup{dir: t.TempDir(), words: []string{"max_steps=1", "eval_every=-1"}, options: c.before}
		tr, _ := s.open(t)
		run(t, tr)
		s.words[0] = "max_steps=2"
		tr, l := s.open(t)
		require.Empty(t, l.warnings, "the run continues unchanged")
		require.NoError(t, tr.Close())

		s.options = c.now
		_, _, err := s.tryOpen(t)
		require.ErrorContains(t, err, c.refused)
		require.ErrorContains(t, err, "allow_change="+c.key+" to accept the change")
		require.True(t, badinput.Is(err))
		require.NotContains(t, err.Error(), "\n")
		if c.sandbox {
			continue
		}
		s.words = append(s.words, "allow_change="+c.key)
		tr, l = s.open(t)
		require.Contains(t, strings.Join(l.warnings, "\n"), "changed since the run began, as allowed: "+c.refused)
		run(t, tr)
		s.words = s.words[:2]
		tr, l = s.open(t)
		require.Empty(t, l.warnings, "the change was allowed once, and is now the run's own")
		require.NoError(t, tr.Close())
	}
}

func TestAForkIsToldOfOwnParts(t *testing.T) {
	dir := t.TempDir()
	tr, _ := setup{dir: dir, words: []string{"max_steps=1", "eval_every=-1"}}.open(t)
	run(t, tr)
	for _, c := range []struct {
		options []Option
		told    bool
	}{{nil, false}, {[]Option{WrapGrader(same)}, true}} {
		fork := setup{dir: t.TempDir(), words: []string{"max_steps=2", "eval_every=-1", "init_from=" + dir}, options: c.options}
		_, l := fork.open(t)
		require.Equal(t, c.told, strings.Contains(strings.Join(l.warnings, "\n"),
			"different from the run that this one is a fork of: reward: the program's own wrapper"), l.warnings)
	}
}

// Records of older releases do not say at each start which parts were the program's own.
func TestARunOfAnOlderReleaseGoesOn(t *testing.T) {
	s := setup{dir: t.TempDir(), words: []string{"max_steps=1", "eval_every=-1"}}
	tr, _ := s.open(t)
	run(t, tr)
	path := filepath.Join(s.dir, provenance.ManifestFile)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	starts := strings.Index(string(text), `"starts"`)
	own := strings.Index(string(text)[starts:], `"own"`)
	require.Positive(t, own, "%s", text)
	older := string(text[:starts]) + strings.Replace(string(text[starts:]), `"own"`, `"elsewhere"`, 1)
	require.NoError(t, os.WriteFile(path, []byte(older), 0o644))
	s.words, s.options = []string{"max_steps=2", "eval_every=-1"}, []Option{WrapGrader(same)}
	_, l := s.open(t)
	require.Empty(t, l.warnings)
}

// Without own parts, the manifest of a run does not mention them.
func TestOwnPartsAreRecordedWhereThereAreAny(t *testing.T) {
	dir := t.TempDir()
	run(t, open(t, nil, "run_dir="+dir, "max_steps=1", "eval_every=-1"))
	text, err := os.ReadFile(filepath.Join(dir, provenance.ManifestFile))
	require.NoError(t, err)
	require.NotContains(t, string(text), `"own"`)
}

// Results by another judge are not compared with the run's.
func TestAnotherJudgeIsTold(t *testing.T) {
	dir := t.TempDir()
	s := setup{dir: dir, words: []string{"max_steps=2", "eval_every=2"}}
	tr, first := s.open(t)
	run(t, tr)
	require.NotNil(t, first.evals[1].Change)
	for _, c := range []struct {
		options []Option
		told    bool
	}{{nil, false}, {[]Option{WrapGrader(same)}, true}} {
		l := &listener{}
		e, err := OpenRun(t.Context(), dir, backend(t, 0), l, nil, append(c.options, WithGrader(reward.GraderFunc(vowels)))...)
		require.NoError(t, err)
		found, err := e.Evaluate(t.Context())
		require.NoError(t, err)
		require.NoError(t, e.Close())
		require.Equal(t, c.told, found.Change == nil)
		require.Equal(t, c.told, strings.Contains(strings.Join(l.warnings, "\n"), "compare with the run's: reward: the program's own wrapper"))
	}
	s.words, s.options = []string{"max_steps=4", "eval_every=2", "allow_change=reward"}, []Option{WrapGrader(same)}
	tr, l := s.open(t)
	run(t, tr)
	require.Len(t, l.evals, 1)
	require.Nil(t, l.evals[0].Change)
}

// Each step is replayed with the loss that was in force.
func TestAReplayKnowsWhoseTheLossWas(t *testing.T) {
	race.SkipCovered(t)
	pull := func(s *model.LossSequence) float64 { // moves the policy differently from the built-in loss
		for i := range s.Grad {
			s.Grad[i] = s.Weight[i] * s.Advantage[i]
		}
		return 0
	}
	s := setup{dir: t.TempDir(), words: []string{"max_steps=1", "eval_every=-1", "save_every=-1"}}
	tr, _ := s.open(t)
	run(t, tr)
	s.words, s.options = append(s.words[1:], "max_steps=2", "allow_change=loss"), []Option{WithLoss(pull)}
	tr, _ = s.open(t)
	run(t, tr)
	require.NoError(t, os.RemoveAll(checkpoint(s.dir, 1))) // so that both steps are replayed
	_, _, err := replayed(t, s.dir, 2)
	require.ErrorContains(t, err, "replay it there, with WithLoss")
	_, err = Replay(t.Context(), s.dir, 2, backend(t, 0), nil, WithLoss(pull))
	require.NoError(t, err)
	_, _, err = replayed(t, s.dir, 1)
	require.NoError(t, err, "step 1 had the built-in loss")
}

// A finished run that is opened again still reports its evaluations.
func TestAFinishedRunStillTellsWhatItFound(t *testing.T) {
	s := setup{dir: t.TempDir(), words: []string{"max_steps=2", "eval_every=2"}}
	tr, _ := s.open(t)
	run(t, tr)
	_, want := tr.Evaluations()
	require.NotNil(t, want.Change)
	tr, _ = s.open(t)
	run(t, tr)
	_, last := tr.Evaluations()
	require.Equal(t, want.Change, last.Change)
	require.Equal(t, want.Summary(), last.Summary())

	tr, _ = setup{words: []string{"max_steps=1", "eval_every=-1"}}.open(t)
	run(t, tr)
	_, last = tr.Evaluations()
	require.Nil(t, last)
	require.Equal(t, "nothing was evaluated", last.Summary())

	many := Evaluation{Problems: stats.MinProblems}
	require.NotContains(t, many.Summary(), "too few", "where the record does not say which problems were judged")
}

// If a grader returns "correct" for some completions only in part, the run warns once, and continues unchanged.
func TestAGraderThatIsUndecided(t *testing.T) {
	for correct, told := range map[float64]int{0.5: 1, -1: 1, 1: 0, 0: 0} {
		grader := reward.GraderFunc(func(context.Context, reward.Completion) (reward.Score, error) {
			return reward.Score{Components: reward.Components{Correct: correct}}, nil
		})
		tr, l := setup{words: []string{"max_steps=2", "eval_every=-1"}, options: []Option{WithGrader(grader)}}.open(t)
		run(t, tr)
		require.Len(t, l.warnings, told, "%v", l.warnings)
		if told > 0 {
			require.Contains(t, l.warnings[0], fmt.Sprintf("sets Components.Correct to %v, expected 1 where a completion is right and 0", correct))
		}
	}
}
