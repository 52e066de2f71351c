package bench

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// Sandbox measures trivial programs in warm sandboxes, and the judging of a whole step.
type Sandbox struct {
	Options            sandbox.Options
	Runs               int // of trivial programs
	Completions, Tests int // of the step, and per completion
}

// SandboxResult is the result; durations are in milliseconds.
type SandboxResult struct {
	Bench       string  `json:"bench"`
	Rung        string  `json:"rung"`
	Python      string  `json:"python"`
	Version     string  `json:"python_version"`
	Slots       int     `json:"slots"`
	PlainStart  float64 `json:"plain_start_ms"`
	RunMedian   float64 `json:"run_ms"`
	Run95       float64 `json:"run_p95_ms"`
	RunsPerS    float64 `json:"runs_per_s"`
	Completions int     `json:"completions"`
	Tests       int     `json:"tests"`
	StepSeconds float64 `json:"step_s"`

	runs int
}

// Run measures one program at a time, all slots at once, and a step of completions that all differ. For comparison it
// measures starting the same interpreter without isolation.
func (b *Sandbox) Run(ctx context.Context) (*SandboxResult, error) {
	if b.Runs < 1 || b.Completions < 1 || b.Tests < 1 {
		return nil, badinput.Errorf("--runs, --completions and --tests: expected numbers above 0")
	}
	pool, err := sandbox.Open(ctx, b.Options)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	report := pool.Isolation()
	r := &SandboxResult{
		Bench: "sandbox", Rung: report.Rung.String(), Python: report.Python, Version: report.Version,
		Slots: report.Slots, Completions: b.Completions, Tests: b.Tests, runs: b.Runs,
	}
	return r, r.measure(ctx, pool)
}

// Report is the result for people.
func (r *SandboxResult) Report() Report {
	t := Report{
		Above:  fmt.Sprintf("isolation %s, Python %s, %d slots\n", r.Rung, r.Version, r.Slots),
		Header: []string{"what", "time", "a second", "beside a plain start"},
	}
	row := func(name string, ms, each float64) {
		t.row(name, fmt.Sprintf("%.2f ms", ms), fmt.Sprintf("%.0f", 1000/each), fmt.Sprintf("%.1f ×", r.PlainStart/each))
	}
	row("plain start: python -c pass", r.PlainStart, r.PlainStart)
	row("trivial program, one slot, median", r.RunMedian, r.RunMedian)
	row("trivial program, one slot, 95 %", r.Run95, r.Run95)
	row(fmt.Sprintf("%d trivial programs, all slots", r.runs), 1000*float64(r.runs)/r.RunsPerS, 1000/r.RunsPerS)
	row(fmt.Sprintf("a step: %d completions × %d tests", r.Completions, r.Tests), 1000*r.StepSeconds,
		1000*r.StepSeconds/float64(r.Completions*r.Tests))
	return t
}

func (r *SandboxResult) measure(ctx context.Context, pool *sandbox.Pool) error {
	took, err := timeRuns(ctx, 21, func() error { return exec.CommandContext(ctx, r.Python, "-c", "pass").Run() })
	if err != nil {
		return fmt.Errorf("%s -c pass: %w", r.Python, err)
	}
	r.PlainStart = milliseconds(took)
	if _, err := runTrivial(ctx, pool, 2*r.Slots, r.Slots); err != nil { // start all sandboxes
		return err
	}
	each, err := runTrivial(ctx, pool, max(r.runs/10, 1), 1)
	if err != nil {
		return err
	}
	slices.Sort(each)
	r.RunMedian, r.Run95 = milliseconds(median(each)), milliseconds(each[len(each)*95/100])
	start := time.Now()
	if _, err := runTrivial(ctx, pool, r.runs, 2*r.Slots); err != nil {
		return err
	}
	r.RunsPerS = float64(r.runs) / time.Since(start).Seconds()
	r.StepSeconds, err = judgeStep(ctx, pool, r.Completions, r.Tests)
	return err
}

// TrivialLatency is the median time of the smallest program in a warm sandbox, in milliseconds.
func TrivialLatency(ctx context.Context, pool *sandbox.Pool) (float64, error) {
	took, err := timeRuns(ctx, 11, func() error { return trivial(ctx, pool) })
	return milliseconds(took), err
}

// runTrivial runs the smallest program n times, atOnce at a time, and returns the time of each.
func runTrivial(ctx context.Context, pool *sandbox.Pool, n, atOnce int) ([]time.Duration, error) {
	took := make([]time.Duration, n)
	errs := make([]error, atOnce)
	var wg sync.WaitGroup
	for worker := range atOnce {
		wg.Go(func() {
			for i := worker; i < n && errs[worker] == nil; i += atOnce {
				start := time.Now()
				errs[worker] = trivial(ctx, pool)
				took[i] = time.Since(start)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return took, nil
}

func trivial(ctx context.Context, pool *sandbox.Pool) error {
	var result sandbox.Result
	err := pool.Run(ctx, "", sandbox.Program{Code: "pass"}, []sandbox.Input{{}}, sandbox.Limits{}, func(_ int, r sandbox.Result) bool {
		result = r
		return true
	})
	if err == nil && result.Status != sandbox.OK {
		return fmt.Errorf("the program 'pass' ended with %s: %s", result.Status, result.Stderr)
	}
	return err
}

// judgeStep judges right programs that all differ, and returns the seconds that took.
func judgeStep(ctx context.Context, pool *sandbox.Pool, completions, tests int) (float64, error) {
	weights, err := reward.ModeWeights("correct")
	if err != nil {
		return 0, err
	}
	judge := reward.NewJudge(reward.Rules{Weights: weights}, pool, nil, nil)
	list := make([]data.Test, tests)
	for i := range list {
		list[i] = data.Test{Stdin: fmt.Sprintf("%d %d\n", i, 10*i), Stdout: fmt.Sprintln(11 * i)}
	}
	problem := data.Problem{ID: "sum", Kind: data.Stdin}.WithTests(list...)
	step := make([]reward.Completion, completions)
	for i := range step {
		step[i] = reward.Completion{
			Problem: &problem, Group: fmt.Sprint(i / 16),
			Text: fmt.Sprintf("```python\n# %d\na, b = map(int, input().split())\nprint(a + b)\n```\n", i),
		}
	}
	start := time.Now()
	scores, err := reward.All(ctx, judge, step)
	if err != nil {
		return 0, err
	}
	took := time.Since(start).Seconds()
	for _, s := range scores {
		if s.Verdict != reward.AC {
			return 0, fmt.Errorf("a right program was judged %s: %s", s.Verdict, s.Note)
		}
	}
	return took, nil
}
