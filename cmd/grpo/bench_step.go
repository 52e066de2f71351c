package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/reward"
)

// arrangement are the settings under which scoring can run beside the model on two cores, where the
// command line does not say otherwise.
var arrangement = []string{"threads=1", "sandbox_slots=1", "max_tests=1", "max_sequences=1", "prompts_per_step=16", "completions_per_prompt=4", "format_coef=0"}

func newBenchStepCmd() *cobra.Command {
	var b benchStep
	cmd := &cobra.Command{
		Use:   "step [--preset P] [--steps N] [--rounds N] [--share S] [key=value …]",
		Short: "Whole training steps, with nothing, scoring, or also sampling overlapped",
		Long: `Takes the same training steps with each pipeline, on fresh sessions of one seed, and shows where their
time goes, in medians: sampling, waiting for scores while nothing else runs, training. It is the real
sampler, sandbox and trainer; nothing is written.

Overlapping pays where the sandbox has processors of its own and sampling takes long enough to hide it.
So, unless key=value say otherwise, the model computes on one core and the sandbox has one slot
(threads=1 sandbox_slots=1), and a program has one test (max_tests=1). The tiny model draws a batch of tokens
nearly for free and spends its step on training; so completions are drawn one at a time, bound by memory
as the decoding of a large model is (max_sequences=1), and groups are small and teach nothing where
everything is wrong, as hard problems do (prompts_per_step=16 completions_per_prompt=4 format_coef=0).

Every program works for some milliseconds of processor time before it begins, as many as it takes for scoring
to be the --share of a step of pipeline=off. With --sleep it sleeps instead, as if the sandbox were on
another machine: for one whose cores have other work. A pipeline is compared with the off of its own round. At best
is what it would be if everything were hidden that its sampling and training can hide.`,
		Example: `  grpo bench step
  grpo bench step --share 0.5 --steps 20
  grpo bench step --preset tiny --share 0 max_sequences=16 sandbox_slots=2`,
		Args: trainArgs,
		RunE: func(cmd *cobra.Command, words []string) error { return b.run(cmd, words) },
	}
	cmd.Flags().StringVar(&b.preset, "preset", configs.DefaultPreset, "settings to start from: "+strings.Join(configs.Presets(), ", "))
	cmd.Flags().IntVar(&b.steps, "steps", 8, "steps that count, after one to warm up and before one to end")
	cmd.Flags().IntVar(&b.rounds, "rounds", 3, "runs of each pipeline, in turn")
	cmd.Flags().Float64Var(&b.share, "share", 1./3, "of a step of pipeline=off that scoring takes; 0: leave the programs as they are")
	cmd.Flags().BoolVar(&b.sleep, "sleep", false, "programs sleep in place of working")
	cmd.Flags().BoolVar(&b.json, "json", false, "only the line of JSON")
	return cmd
}

// benchStep compares pipelines.
type benchStep struct {
	preset        string
	words         []string
	steps, rounds int
	share         float64
	sleep, json   bool
	errs          io.Writer
}

// stepResult is what the benchmark prints.
type stepResult struct {
	Bench     string           `json:"bench"`
	Backend   string           `json:"backend"`
	Sandbox   string           `json:"sandbox"`
	Load      float64          `json:"load_average"` // of the machine, before the benchmark
	Preset    string           `json:"preset"`
	Settings  []string         `json:"settings"`
	Steps     int              `json:"steps"`
	Rounds    int              `json:"rounds"`
	WorkMS    float64          `json:"work_ms"`       // of every program, before it begins
	Sleep     bool             `json:"sleep"`         // is what the work is
	Share     float64          `json:"sandbox_share"` // of a step of pipeline=off
	Pipelines []pipelineResult `json:"pipelines"`
	// Equal says that pipeline=off and score ended with the same adapter, to the bit.
	Equal bool `json:"equal_adapters"`
}

// pipelineResult is one pipeline: medians of all its steps, and of its rounds beside those of off.
type pipelineResult struct {
	Pipeline string    `json:"pipeline"`
	Sample   float64   `json:"sample_s"`
	Score    float64   `json:"score_s"` // while nothing else ran
	Train    float64   `json:"train_s"`
	Total    float64   `json:"total_s"`
	Tokens   float64   `json:"tokens_per_s"`
	Idle     float64   `json:"idle_share"` // of the step, for the model
	Speedup  float64   `json:"speedup"`
	Each     []float64 `json:"speedup_rounds"`
	AtBest   float64   `json:"speedup_at_best"`
	Adapter  string    `json:"trained_sha256"`
}

// pipelines are compared in this order. off is what the others are compared with.
var pipelines = []string{"off", "score", "full"}

func (b *benchStep) run(cmd *cobra.Command, words []string) error {
	if b.steps < 1 || b.rounds < 1 {
		return badinput.Errorf("--steps and --rounds: expected 1 or more, found %d and %d", b.steps, b.rounds)
	}
	if !(b.share >= 0 && b.share <= 0.9) {
		return badinput.Errorf("--share: found %v, expected 0 to 0.9", b.share)
	}
	b.errs = cmd.ErrOrStderr()
	if err := b.arrange(words); err != nil {
		return err
	}
	r := &stepResult{Bench: "step", Load: loadAverage(), Preset: b.preset, Settings: b.words, Steps: b.steps, Rounds: b.rounds, Sleep: b.sleep}
	work, err := b.calibrate(func(work time.Duration) (*stepRun, error) { return b.measure(cmd.Context(), "off", work) })
	if err != nil {
		return err
	}
	r.WorkMS = milliseconds(work)
	runs := map[string][]*stepRun{}
	for range b.rounds {
		for _, p := range pipelines {
			one, err := b.measure(cmd.Context(), p, work)
			if err != nil {
				return fmt.Errorf("pipeline=%s: %w", p, err)
			}
			runs[p] = append(runs[p], one)
		}
	}
	r.compare(runs)
	if !b.json {
		if err := r.print(cmd.OutOrStdout()); err != nil {
			return err
		}
	}
	if err := printJSON(cmd.OutOrStdout(), r); err != nil {
		return err
	}
	if !r.Equal {
		return fmt.Errorf("pipeline=off and score ended with different adapters: the order of scores changed a result")
	}
	return nil
}

// arrange adds the settings that the command line leaves to the benchmark.
func (b *benchStep) arrange(words []string) error {
	for _, setting := range arrangement {
		key, _, _ := strings.Cut(setting, "=")
		if !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, key+"=") }) {
			b.words = append(b.words, setting)
		}
	}
	for _, w := range words {
		if strings.HasPrefix(w, "pipeline=") {
			return badinput.Errorf("pipeline: the benchmark compares all of them; leave it out")
		}
		b.words = append(b.words, w)
	}
	return nil
}

// calibrate looks for the work of each program that makes scoring the wanted share of a step, and gives
// what came nearest in a few tries.
func (b *benchStep) calibrate(off func(work time.Duration) (*stepRun, error)) (nearest time.Duration, err error) {
	if b.share == 0 {
		return 0, nil
	}
	miss, work := math.Inf(1), time.Duration(0)
	for range 5 {
		r, err := off(work)
		if err != nil {
			return 0, err
		}
		if r.programs == 0 {
			return 0, badinput.Errorf("no completion had a program: there is nothing to run in the sandbox; choose a model that writes some")
		}
		compute := r.median(func(s stepTime) float64 { return s.total - s.score })
		score := r.median(func(s stepTime) float64 { return s.score })
		found := score / (score + compute)
		if math.Abs(found-b.share) < miss {
			nearest, miss = work, math.Abs(found-b.share)
		}
		if miss < 0.01 || found > b.share && work == 0 {
			break
		}
		missing := b.share/(1-b.share)*compute - score // seconds a step
		work = max(work+time.Duration(missing*float64(r.slots)/r.programs*float64(time.Second)), 0)
		if limit := r.timeout / 2; work > limit {
			return 0, badinput.Errorf("--share %v takes %v of work in every program, more than half of reward_timeout; lower it, or raise reward_timeout", b.share, work)
		}
	}
	return nearest, nil
}

// stepTime is where the time of a step went, in seconds, as a clock on the wall has it.
type stepTime struct {
	sample, score, train, total float64
	tokens                      int
}

// stepRun is a run with one pipeline.
type stepRun struct {
	steps            []stepTime
	programs         float64 // that worked, in a step
	slots            int
	timeout          time.Duration
	adapter          string
	backend, sandbox string
}

// measure takes the steps with a pipeline, on a session of its own. The first step warms up; the last
// one of a run that samples ahead samples nothing.
func (b *benchStep) measure(ctx context.Context, pipeline string, work time.Duration) (*stepRun, error) {
	cfg, err := configs.Load(configs.Source{Preset: b.preset, Overrides: append(slices.Clone(b.words), "pipeline="+pipeline)})
	if err != nil {
		return nil, err
	}
	back, err := cpu.New(cpu.Options{Threads: cfg.Threads})
	if err != nil {
		return nil, err
	}
	defer back.Close()
	log := &stepLog{screen: newScreen(io.Discard, b.errs, true, false)}
	cfg.MaxSteps, cfg.EvalEvery, cfg.SaveEvery = b.steps+2, -1, -1
	var grader *laden
	t, err := grpo.Open(ctx, cfg, back, log, grpo.Unrecorded(), grpo.WrapGrader(func(g reward.Grader) reward.Grader {
		grader = &laden{Grader: g, work: work, sleep: b.sleep}
		return grader
	}))
	if err != nil {
		return nil, err
	}
	log.last = time.Now()
	err = t.Run(ctx)
	r := &stepRun{slots: max(t.Sandbox().Slots, 1), timeout: time.Duration(cfg.RewardTimeout * float64(time.Second)),
		backend: back.Name(), sandbox: t.Sandbox().String()}
	if err == nil {
		r.programs = float64(grader.programs.Load()) / float64(len(log.steps))
		r.steps = log.steps[1 : len(log.steps)-1]
		r.adapter, err = t.Policy().Hash()
	}
	return r, errors.Join(err, t.Close())
}

// stepLog is told how long each step took.
type stepLog struct {
	*screen
	last  time.Time
	steps []stepTime
}

// StepDone notes the step.
func (l *stepLog) StepDone(m grpo.Metrics, t grpo.Timing, _ []grpo.Advice) {
	now := time.Now()
	l.steps = append(l.steps, stepTime{t.Sample, t.Score, t.Train, now.Sub(l.last).Seconds(), m.CompletionTokens})
	l.last = now
}

// loadAverage is how many processes wanted to run in the last minute; 0 where nobody tells.
func loadAverage() (load float64) {
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &load)
	}
	return load
}
