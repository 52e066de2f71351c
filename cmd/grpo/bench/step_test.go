package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Settings of the command line override the benchmark's own.
func TestStepArranges(t *testing.T) {
	b := Step{Words: []string{"threads=2", "seed=3"}}
	require.NoError(t, b.arrange())
	require.Equal(t, []string{"sandbox_slots=1", "max_tests=1", "max_sequences=1",
		"prompts_per_step=16", "completions_per_prompt=4", "format_coef=0", "threads=2", "seed=3"}, b.Words)
	require.Equal(t, "threads=1", overlapSettings[0], "the benchmark's own settings are unchanged")
}

// With a model of 30 programs a step on two slots, with 3 ms of overhead each, the requested share is found; a share that is exceeded
// without any load is kept.
func TestStepCalibrates(t *testing.T) {
	off := func(work time.Duration) (*stepRun, error) {
		score := 15 * (0.003 + work.Seconds())
		step := stepTime{0.1, score, 0.2, 0.3 + score, 1}
		return &stepRun{steps: []stepTime{step, step}, programs: 30, slots: 2, timeout: time.Second}, nil
	}
	b := Step{Share: 0.25}
	work, err := b.calibrate(off)
	require.NoError(t, err)
	require.InDelta(t, 0.1/15-0.003, work.Seconds(), 1e-6)
	b.Share = 0.1
	work, err = b.calibrate(off)
	require.NoError(t, err)
	require.Zero(t, work)
	b.Share = 0.99
	_, err = b.calibrate(off)
	require.ErrorContains(t, err, "raise reward_timeout")
}

func TestStepCompares(t *testing.T) {
	steps := func(adapter string, times ...stepTime) []*stepRun {
		return []*stepRun{{steps: times, adapter: adapter}}
	}
	runs := map[string][]*stepRun{
		"off":   steps("a", stepTime{1, 2, 3, 6, 60}, stepTime{1, 4, 3, 8, 80}, stepTime{1, 2, 3, 6, 60}),
		"score": steps("a", stepTime{1, 1, 3, 5, 60}, stepTime{1, 1, 3, 5, 80}, stepTime{1, 1, 3, 5, 60}),
		"full":  steps("b", stepTime{1, 0, 3, 4, 40}, stepTime{1, 0, 3, 4, 40}, stepTime{1, 0, 3, 4, 40}),
	}
	var r StepResult
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
	r = StepResult{}
	r.compare(runs)
	require.False(t, r.Equal)
}
