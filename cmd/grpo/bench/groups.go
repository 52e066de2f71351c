package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// Groups measures training on groups of completions: with a prompt for each completion, and with each group's prompt computed once.
type Groups struct {
	Model
	Prompts, Completions int // completions of each prompt
	Prompt, Completion   int // tokens
}

// GroupsResult is the time of a forward and backward pass both ways, the memory, and the distance of the gradients.
type GroupsResult struct {
	Bench       string         `json:"bench"`
	Backend     string         `json:"backend"`
	Shape       string         `json:"shape"`
	Rank        int            `json:"rank"`
	Prompts     int            `json:"prompts"`
	Completions int            `json:"completions_per_prompt"`
	Prompt      int            `json:"prompt_tokens"`
	Completion  int            `json:"completion_tokens"`
	MaxRows     int            `json:"max_rows"`
	Limits      hardwareLimits `json:"limits"`
	Rows        int            `json:"rows"`        // with a prompt for each completion
	Shared      int            `json:"rows_shared"` // of these, not computed with shared prompts
	Alone       float64        `json:"alone_s"`
	Together    float64        `json:"shared_s"`
	Times       float64        `json:"times_alone"`
	Distance    float64        `json:"gradient_distance"`           // relative to the norm
	PeakAlone   int64          `json:"peak_resident_bytes_alone"`   // 0: unknown
	Peak        int64          `json:"peak_resident_bytes_of_both"` // of both ways: the same, unless shared prompts take more
}

// Run trains both ways, alternating. Times are medians, and so is their ratio.
func (g *Groups) Run(ctx context.Context) (_ *GroupsResult, err error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	if g.Options.MaxRows == 0 {
		g.Options.MaxRows = g.Prompt + g.Completions*g.Completion
	}
	lim, b, err := g.begin()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	step, err := newTrainStep(b, &g.Model)
	if err != nil {
		return nil, err
	}
	step.datums = g.datums(step.policy.Vocab)
	rows := 0
	for _, d := range step.datums {
		rows += d.Rows()
	}
	r := &GroupsResult{Bench: "groups", Backend: b.Name(), Shape: g.Shape, Rank: g.Rank, Prompts: g.Prompts, Completions: g.Completions,
		Prompt: g.Prompt, Completion: g.Completion, MaxRows: g.Options.MaxRows, Limits: lim, Rows: rows}
	if err := g.compare(ctx, b, step, r); err != nil {
		return nil, err
	}
	return r, nil
}

// check refuses invalid sizes.
func (g *Groups) check() error {
	shape, err := model.ShapeNamed(g.Shape)
	switch {
	case err != nil:
		return err
	case g.Prompts < 1 || g.Completions < 1 || g.Prompt < 1 || g.Completion < 1:
		return badinput.Errorf("--prompts, --completions, --prompt-tokens and --completion-tokens: found %d, %d, %d and %d, expected 1 or more",
			g.Prompts, g.Completions, g.Prompt, g.Completion)
	case g.Prompt > shape.MaxPositions || g.Completion > shape.MaxPositions-g.Prompt:
		return badinput.Errorf("--prompt-tokens and --completion-tokens: found %d and %d, expected at most %d together, the positions of %s",
			g.Prompt, g.Completion, shape.MaxPositions, g.Shape)
	case g.Rank < 1:
		return badinput.Errorf("--rank: found %d, expected 1 or more", g.Rank)
	}
	return nil
}

// datums are random completions of random prompts; the prompts are masked.
func (g *Groups) datums(vocab int) (all []model.Datum) {
	rng := rand.New(rand.NewPCG(3, 3))
	random := func(n int) []int32 {
		tokens := make([]int32, n)
		for i := range tokens {
			tokens[i] = rng.Int32N(int32(vocab))
		}
		return tokens
	}
	for range g.Prompts {
		prompt := random(g.Prompt)
		for range g.Completions {
			tokens := slices.Concat(prompt, random(g.Completion))
			all = append(all, model.NewDatum(tokens, g.Prompt, make([]float32, len(tokens)-1), 1))
		}
	}
	return all
}

// compare measures, after a warm-up, from which it takes gradients and memory.
func (g *Groups) compare(ctx context.Context, b kernels.Backend, s *trainStep, r *GroupsResult) error {
	var alone, shared, times []float64
	_, grads, _ := s.policy.Slabs()
	var kept [2][]float32 // gradients both ways; allocated before, so that both peaks include them
	for i := range kept {
		kept[i] = make([]float32, grads.Len())
		if err := b.Download(kept[i], grads); err != nil {
			return err
		}
	}
	peak := func() int64 { return 0 }
	if resetPeak() { // without that of making the model
		peak = peakMemory
	}
	for run := range g.Runs + 1 {
		one, _, err := s.pass(ctx, b, false, kept[0])
		if err != nil {
			return err
		}
		if run == 0 {
			r.PeakAlone = peak()
		}
		two, saved, err := s.pass(ctx, b, true, kept[1])
		if err != nil {
			return err
		}
		if run == 0 {
			r.Shared, r.Peak, r.Distance = saved, peak(), distance(kept[1], kept[0])
			continue
		}
		alone, shared, times = append(alone, one), append(shared, two), append(times, two/one)
	}
	r.Alone, r.Together, r.Times = median(alone), median(shared), median(times)
	return nil
}

// pass is a forward and backward pass, with shared prefixes or not. It returns the seconds and the rows saved; gradients go to into.
func (s *trainStep) pass(ctx context.Context, b kernels.Backend, share bool, into []float32) (seconds float64, shared int, err error) {
	_, grads, _ := s.policy.Slabs()
	b.Zero(grads)
	s.policy.SharePrefixes = share
	start := time.Now()
	stats, err := s.accumulate(ctx)
	if err != nil {
		return 0, 0, err
	}
	err = b.Download(into, grads)
	return time.Since(start).Seconds(), stats.Shared, err
}

// distance is the norm of the difference, relative to the norm of want.
func distance(got, want []float32) float64 {
	var apart, whole float64
	for i, w := range want {
		apart += (float64(got[i]) - float64(w)) * (float64(got[i]) - float64(w))
		whole += float64(w) * float64(w)
	}
	return math.Sqrt(apart / whole)
}

// Report is the result for people.
func (r *GroupsResult) Report() Report {
	peak := "unknown"
	if r.Peak > 0 {
		peak = gigabytes(r.PeakAlone) + ", " + gigabytes(r.Peak)
	}
	t := Report{Above: r.Limits.above(r.Backend), Header: []string{
		"shape", "groups", "tokens", "rows", "shared", "each with its prompt", "the prompt once", "times", "gradients apart", "peak memory"}}
	t.row(r.Shape, fmt.Sprintf("%d × %d", r.Prompts, r.Completions), fmt.Sprintf("%d + %d", r.Prompt, r.Completion), fmt.Sprint(r.Rows),
		fmt.Sprint(r.Shared), fmt.Sprintf("%.2f s", r.Alone), fmt.Sprintf("%.2f s", r.Together), fmt.Sprintf("%.2f", r.Times),
		fmt.Sprintf("%.1e", r.Distance), peak)
	return t
}
