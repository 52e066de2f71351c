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

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/judging"
	"github.com/seed-7879b91d/grpo/reward"
)

// A reward file or checker that cannot work is refused when the run is opened, and so by a dry run.
func TestWhatCannotJudgeIsRefusedBeforeTheFirstStep(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	file := write("reward.py", "def compute_reward(completion, ground_truth):\n    return {}['x']\n")
	_, err := tryOpen(t, nil, "run_dir="+filepath.Join(dir, "run"), "reward=custom", "reward_file="+file)
	require.ErrorContains(t, err, "reward_file="+file+" fails on a trial completion of problem ")
	require.ErrorContains(t, err, "KeyError: 'x'")
	require.True(t, badinput.Is(err))

	task := `{"id":"%s","prompt":"Print an even number, %s.","checker":"%s","tests":[{"stdin":"","stdout":"2"}]}` + "\n"
	good := fmt.Sprintf(task, "a", "a", `def check(i, o, e):\n    return True\n`)
	for checker, why := range map[string]string{`def check(i, o e)`: "SyntaxError", `def chekc(i, o, e): pass`: "found no function check"} {
		train := write("train.jsonl", good+fmt.Sprintf(task, "b", "b", checker))
		_, err := tryOpen(t, nil, "run_dir="+filepath.Join(dir, "run"), "data="+train, "eval_every=-1")
		require.ErrorContains(t, err, "data="+train+": the checker of problem b: "+why)
		require.ErrorContains(t, err, "1 of 2 problems")
		require.True(t, badinput.Is(err))
	}
}

// Completions on which a reward file fails are left out, counted and reported at once.
func TestARewardFileThatFailsIsSeen(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "reward.py")
	require.NoError(t, os.WriteFile(file, []byte("def compute_reward(completion, ground_truth):\n    if len(completion) % 2 and '42' not in "+
		"completion:\n        raise ValueError('odd')\n    return len(completion)\n"), 0o644))
	l := &listener{}
	tr := open(t, l, "run_dir="+filepath.Join(dir, "run"), "reward=custom", "reward_file="+file, "infra_threshold=200", "eval_every=-1",
		"temperature=3", "max_steps=4")
	err := tr.Run(t.Context()) // may stop the run: too many are left out
	require.NotEmpty(t, l.metrics)
	m := l.metrics[0]
	require.NotZero(t, m.FileErrors)
	require.Equal(t, m.FileErrors, m.RewardErrors)
	require.Equal(t, m.FileErrors, m.Excluded)
	require.Positive(t, m.MeanReward)
	require.Equal(t, map[string]float64{"custom": m.MeanReward}, m.Components, "the mean is of scored completions only")
	require.Contains(t, l.warnings, fmt.Sprintf("reward_file=%s failed on %d completions; the first time: RTE ValueError: odd (line 3)",
		file, m.FileErrors))
	require.Contains(t, findings(l), fmt.Sprintf("%d of 8 completions could not be scored; the first: reward file: RTE", m.FileErrors))
	require.Contains(t, m.Summary(Timing{RewardFile: 0.5}), fmt.Sprintf("%d not scored", m.FileErrors))
	require.Contains(t, m.Summary(Timing{RewardFile: 0.5}), "reward file 0.5 s a call")
	require.Positive(t, lines(t, dir, "run", trainLogFile)[0]["reward_file_s"])
	require.EqualValues(t, m.FileErrors, lines(t, dir, "run", metricsFile)[0]["reward_file_errors"])
	if m.FileErrors > 1 {
		require.ErrorContains(t, err, "fixing the reward file")
	}
}

// If a reward file fails so often that the run ends, the last whole step is saved.
func TestARewardFileThatFailsLosesNoStep(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "reward.py")
	require.NoError(t, os.WriteFile(file, []byte("def compute_reward(completion, ground_truth):\n    if len(completion) % 4 == 1:\n"+
		"        raise ValueError('odd')\n    return len(completion)\n"), 0o644))
	tr := open(t, nil, "run_dir="+filepath.Join(dir, "run"), "reward=custom", "reward_file="+file, "infra_threshold=3", "eval_every=-1",
		"temperature=3", "max_steps=40")
	err := tr.Run(t.Context())
	require.True(t, judging.Unscorable(err), err)
	require.Positive(t, tr.StepsDone())
	require.FileExists(t, filepath.Join(dir, "run", "checkpoints", fmt.Sprintf("step_%06d", tr.StepsDone()), "state.json"))
}

// A NaN reward excludes its completion from the group; the run continues.
func TestARewardThatIsNoNumberIsLeftOut(t *testing.T) {
	odd := []float64{1e200, math.Inf(1), math.NaN()}
	for _, advantage := range []string{"mean", "std"} {
		n := 0
		grade := func(ctx context.Context, c reward.Completion) (reward.Score, error) {
			s, err := vowels(ctx, c)
			if len(c.Text)%4 == 0 && n < len(odd) {
				s.Reward = odd[n]
				n++
			}
			return s, err
		}
		tr, l := setup{words: []string{"max_steps=3", "eval_every=-1", "advantage=" + advantage, "pipeline=off", "prompts_per_step=4",
			"sandbox_slots=1"}, options: []Option{WithGrader(locked(grade))}}.open(t)
		require.NoError(t, tr.Run(t.Context()))
		left := 0
		finite := func(x float64) bool { return x-x == 0 }
		for _, m := range l.metrics {
			require.True(t, finite(m.MeanReward) && finite(m.StdReward))
			left += m.RewardErrors
		}
		require.Equal(t, n, left)
		require.NotZero(t, n)
		require.Contains(t, findings(l), "expected a number of at most 1.7e+38 either way")
	}
}

// findings are the findings of all advice.
func findings(l *listener) string {
	var text strings.Builder
	for _, a := range l.advice {
		text.WriteString(a.Finding + "\n")
	}
	return text.String()
}

// locked grades one completion at a time.
func locked(f reward.GraderFunc) reward.Grader {
	turn := make(chan struct{}, 1)
	return reward.GraderFunc(func(ctx context.Context, c reward.Completion) (reward.Score, error) {
		turn <- struct{}{}
		defer func() { <-turn }()
		return f(ctx, c)
	})
}

// Rewards that differ only by rounding give no contrast, however large they are.
func TestRewardsThatDifferByRoundingTeachNothing(t *testing.T) {
	for _, rewards := range [][]float64{{1e-17, 0, 0}, {0.3, 0.1 + 0.2, 0.3}, {1e10, 1e10 + 4e-6, 1e10}, {-7e33, -7e33 * (1 + 2e-16), -7e33}} {
		g := Group{Advantages: StdAdvantages(rewards)}
		require.True(t, g.Degenerate(), rewards)
	}
	for _, rewards := range [][]float64{{1e-3, 0}, {1e6, 1e6 + 1}, {1e38, -1e38}} {
		g := Group{Advantages: StdAdvantages(rewards)}
		require.False(t, g.Degenerate(), rewards)
	}
	require.False(t, (&Group{Advantages: []float64{0, math.NaN()}}).Degenerate(), "which is refused where it is learned from")
}
