package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/reward"
)

func TestBenchStep(t *testing.T) {
	needsCells(t)
	out, errs, code := shell(t, "", "bench", "step", "--steps", "1", "--rounds", "1", "--share", "0", "prompts_per_step=2", "completions_per_prompt=4")
	require.Zero(t, code, errs)
	for _, want := range []string{"threads=1", "every program works for", "faster than off", "the same adapter"} {
		require.Contains(t, out, want)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var r stepResult
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &r))
	require.Equal(t, "step", r.Bench)
	require.True(t, r.Equal)
	require.Zero(t, r.WorkMS)
	require.Len(t, r.Pipelines, len(pipelines))
	for i, p := range r.Pipelines {
		require.Equal(t, pipelines[i], p.Pipeline)
		for _, v := range []float64{p.Sample, p.Train, p.Total, p.Tokens, p.Speedup} {
			require.Positive(t, v, p.Pipeline)
		}
		require.GreaterOrEqual(t, p.AtBest, 1.0)
	}
	require.Equal(t, r.Pipelines[0].Adapter, r.Pipelines[1].Adapter)
	require.NotEqual(t, r.Pipelines[0].Adapter, r.Pipelines[2].Adapter, "a policy that is one update older draws other completions")
}

// Settings of the command line take the place of the benchmark's own.
func TestBenchStepArranges(t *testing.T) {
	b := benchStep{}
	require.NoError(t, b.arrange([]string{"threads=2", "seed=3"}))
	require.Equal(t, []string{"sandbox_slots=1", "max_tests=1", "max_sequences=1", "prompts_per_step=16", "completions_per_prompt=4", "format_coef=0", "threads=2", "seed=3"}, b.words)
}

// In a world where 30 programs a step run on two slots, with 3 ms each beside their work, the share that was
// asked for is found; one that is exceeded without any work is left.
func TestBenchStepCalibrates(t *testing.T) {
	off := func(work time.Duration) (*stepRun, error) {
		score := 15 * (0.003 + work.Seconds())
		return &stepRun{steps: []stepTime{{0.1, score, 0.2, 0.3 + score, 1}, {0.1, score, 0.2, 0.3 + score, 1}}, programs: 30, slots: 2, timeout: time.Second}, nil
	}
	b := benchStep{share: 0.25}
	work, err := b.calibrate(off)
	require.NoError(t, err)
	require.InDelta(t, 0.1/15-0.003, work.Seconds(), 1e-6)
	b.share = 0.1
	work, err = b.calibrate(off)
	require.NoError(t, err)
	require.Zero(t, work)
	b.share = 0.99
	_, err = b.calibrate(off)
	require.ErrorContains(t, err, "raise reward_timeout")
}

func TestBenchStepCompares(t *testing.T) {
	steps := func(adapter string, times ...stepTime) []*stepRun {
		return []*stepRun{{steps: times, adapter: adapter}}
	}
	runs := map[string][]*stepRun{
		"off":   steps("a", stepTime{1, 2, 3, 6, 60}, stepTime{1, 4, 3, 8, 80}, stepTime{1, 2, 3, 6, 60}),
		"score": steps("a", stepTime{1, 1, 3, 5, 60}, stepTime{1, 1, 3, 5, 80}, stepTime{1, 1, 3, 5, 60}),
		"full":  steps("b", stepTime{1, 0, 3, 4, 40}, stepTime{1, 0, 3, 4, 40}, stepTime{1, 0, 3, 4, 40}),
	}
	var r stepResult
	r.compare(runs)
	require.True(t, r.Equal)
	require.InDelta(t, 1./3, r.Share, 1e-12)
	require.InDelta(t, 1, r.Pipelines[0].Speedup, 1e-12)
	require.InDelta(t, 6./5, r.Pipelines[1].Speedup, 1e-12)
	require.InDelta(t, 6./5, r.Pipelines[1].AtBest, 1e-12) // sampling hides one second of two
	require.InDelta(t, 6./4, r.Pipelines[2].Speedup, 1e-12)
	require.InDelta(t, 6./4, r.Pipelines[2].AtBest, 1e-12)
	require.InDelta(t, 1./5, r.Pipelines[1].Idle, 1e-12)
	require.InDelta(t, 10, r.Pipelines[2].Tokens, 1e-12)

	runs["score"][0].adapter = "c"
	r = stepResult{}
	r.compare(runs)
	require.False(t, r.Equal)
}

// echo is a grader that remembers what it was given.
type echo struct{ seen []reward.Completion }

func (e *echo) Grade(_ context.Context, c reward.Completion) (reward.Score, error) {
	e.seen = append(e.seen, c)
	return reward.Score{Verdict: reward.AC}, nil
}

func TestLadenProgramsWorkFirst(t *testing.T) {
	var e echo
	l := laden{Grader: &e, work: 1500 * time.Microsecond}
	for _, text := range []string{"```python\nprint(1)\n```", "no program"} {
		_, err := l.Grade(t.Context(), reward.Completion{Text: text})
		require.NoError(t, err)
	}
	require.True(t, e.seen[0].Bare)
	require.Contains(t, e.seen[0].Text, "+ 0.0015\n")
	require.True(t, strings.HasSuffix(e.seen[0].Text, "pass\nprint(1)\n"), e.seen[0].Text)
	require.Equal(t, reward.Completion{Text: "no program"}, e.seen[1])
	require.EqualValues(t, 1, l.programs.Load())
	l.sleep = true
	_, err := l.Grade(t.Context(), reward.Completion{Text: "```python\nprint(1)\n```"})
	require.NoError(t, err)
	require.Contains(t, e.seen[2].Text, "sleep(0.0015)\n")
}

func TestBenchStepRefuses(t *testing.T) {
	for line, says := range map[string][]string{
		"--steps 0":       {"--steps"},
		"--share 2":       {"--share", "0 to 0.9"},
		"--preset huge":   {"huge", "tiny"},
		"pipeline=off":    {"pipeline", "leave it out"},
		"lerning_rate=1":  {"lerning_rate", "learning_rate"},
		"model=/nowhere/": {"/nowhere/"},
	} {
		out, errs, code := shell(t, "", append([]string{"bench", "step"}, strings.Fields(line)...)...)
		requireBadInput(t, out, errs, code, says...)
	}
}
