package bench

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// overlapSettings are the settings with which scoring can overlap with the model on two cores, unless the command line sets
// them.
var overlapSettings = []string{"threads=1", "sandbox_slots=1", "max_tests=1", "max_sequences=1",
	"prompts_per_step=16", "completions_per_prompt=4", "format_coef=0"}

// Step compares pipelines by whole training steps: nothing overlapped, scoring, or also sampling.
type Step struct {
	Open  Opener
	Watch grpo.Watcher // of every run

	Preset        string
	Words         []string // settings as key=value
	Steps, Rounds int
	Share         float64 // of a step with pipeline=off that scoring should take; 0: leave programs as they are
	Sleep         bool    // programs sleep instead of working
}

// Run takes the same steps with each pipeline, in new sessions with the same seed. Sampler, sandbox and trainer are the
// real ones; nothing is written.
func (b *Step) Run(ctx context.Context) (*StepResult, error) {
	if b.Steps < 1 || b.Rounds < 1 {
		return nil, badinput.Errorf("--steps and --rounds: expected 1 or more, found %d and %d", b.Steps, b.Rounds)
	}
	if !(b.Share >= 0 && b.Share <= 0.9) {
		return nil, badinput.Errorf("--share: found %v, expected 0 to 0.9", b.Share)
	}
	if err := b.arrange(); err != nil {
		return nil, err
	}
	r := &StepResult{
		Bench: "step", Load: loadAverage(), Preset: b.Preset, Settings: b.Words, Steps: b.Steps, Rounds: b.Rounds, Sleep: b.Sleep,
	}
	work, err := b.calibrate(func(work time.Duration) (*stepRun, error) { return b.measure(ctx, "off", work) })
	if err != nil {
		return nil, err
	}
	r.WorkMS = milliseconds(work)
	runs := map[string][]*stepRun{}
	for range b.Rounds {
		for _, p := range pipelines {
			one, err := b.measure(ctx, p, work)
			if err != nil {
				return nil, fmt.Errorf("pipeline=%s: %w", p, err)
			}
			runs[p] = append(runs[p], one)
		}
	}
	r.compare(runs)
	return r, nil
}

// arrange adds the settings that the command line leaves open.
func (b *Step) arrange() error {
	given := map[string]bool{}
	for _, w := range b.Words {
		key, _, _ := strings.Cut(w, "=")
		given[key] = true
	}
	if given["pipeline"] {
		return badinput.Errorf("pipeline: the benchmark compares all of them; leave it out")
	}
	for _, key := range []string{"max_steps", "eval_every", "save_every", "keep_best"} {
		if given[key] {
			return badinput.Errorf("%s: the benchmark takes --steps and a few more, and does nothing between them; leave it out", key)
		}
	}
	left := slices.DeleteFunc(slices.Clone(overlapSettings), func(setting string) bool {
		key, _, _ := strings.Cut(setting, "=")
		return given[key]
	})
	b.Words = append(left, b.Words...)
	return nil
}

// calibrate searches the work per program with which scoring takes the wanted share of a step, and returns the nearest of
// a few attempts.
func (b *Step) calibrate(off func(work time.Duration) (*stepRun, error)) (nearest time.Duration, err error) {
	if b.Share == 0 {
		return 0, nil
	}
	miss, work := math.Inf(1), time.Duration(0)
	for range 5 {
		r, err := off(work)
		if err != nil {
			return 0, err
		}
		if r.programs == 0 {
			return 0, badinput.Errorf("no completion had a program, so the sandbox had nothing to run; " +
				"choose a model that writes some")
		}
		compute := r.median(func(s stepTime) float64 { return s.total - s.score })
		score := r.median(func(s stepTime) float64 { return s.score })
		found := score / (score + compute)
		if math.Abs(found-b.Share) < miss {
			nearest, miss = work, math.Abs(found-b.Share)
		}
		if miss < 0.01 || found > b.Share && work == 0 {
			break
		}
		missing := b.Share/(1-b.Share)*compute - score // seconds per step
		work = max(work+time.Duration(missing*float64(r.slots)/r.programs*float64(time.Second)), 0)
		if limit := r.timeout / 2; work > limit {
			return 0, badinput.Errorf("--share %v takes %v of work in every program, more than half of reward_timeout; "+
				"lower it, or raise reward_timeout", b.Share, work)
		}
	}
	return nearest, nil
}

// loadAverage is the load average of the last minute; 0 if unknown.
func loadAverage() (load float64) {
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &load)
	}
	return load
}
