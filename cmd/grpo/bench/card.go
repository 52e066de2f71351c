package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// Card checks on a real GPU what the emulated one cannot show, and measures it.
type Card struct {
	Open   Opener
	Device string
	Size   string // full, two minutes on a large GPU; or smoke, which the emulated one runs in the same time

	Contract []string     // the command that calls CheckContract
	Say      func(string) // called with each result as soon as it is known; may be nil
}

// cardSize is the size of everything.
type cardSize struct {
	contract         string // parts of the contract to test
	holding          string
	shape            string
	cases, rows      int   // of the products compared by place
	outputs, inputs  int   // of these products
	batches          []int // batch sizes of decoding
	context, prefill int   // tokens in the KV cache, and of a prompt
	training         []int // sequence lengths of training
	step             rolloutSize
	runs             int
}

var cardSizes = map[string]cardSize{
	"full": {"", "against double precision, alone and in batches, twice",
		"qwen3-4b", 200, 700, 1024, 2560, []int{1, 128}, 1024, 4096, []int{4096, 16384}, rolloutSize{8, 16, 256, 800, 32}, 3},
	"smoke": {"Contract/(one order|memory|laws)", "of order, memory and common laws; each operation's are of --size full",
		"tiny", 20, 70, 96, 128, []int{1, 4}, 40, 48, []int{48}, rolloutSize{2, 2, 8, 6, 4}, 1},
}

// CardResult is the result.
type CardResult struct {
	Bench   string         `json:"bench"`
	Backend string         `json:"backend"`
	Order   string         `json:"order"`
	Size    string         `json:"size"`
	Shape   string         `json:"shape"`
	Limits  hardwareLimits `json:"limits"`
	Proofs  []checkResult  `json:"proofs"`
	Speeds  []cardRate     `json:"speeds"`

	say func(string)
}

// checkResult is the result of a check.
type checkResult struct {
	What  string `json:"what"`
	Holds bool   `json:"holds"`
	Saw   string `json:"saw"`
}

// cardRate is a speed, and the GPU's limit; Trouble says why there is none.
type cardRate struct {
	What    string  `json:"what"`
	Rate    float64 `json:"tokens_per_s"`
	Limit   float64 `json:"limit_tokens_per_s"`
	Trouble string  `json:"trouble,omitempty"`
}

// Run runs all checks and measurements. Failures are part of the result.
func (c *Card) Run(ctx context.Context) (*CardResult, error) {
	size, known := cardSizes[c.Size]
	if !known {
		return nil, c.badSize()
	}
	if c.Device == "cpu" {
		return nil, badinput.Errorf("--device cpu: this proves a card; expected auto or cuda:N")
	}
	if err := c.there(); err != nil {
		return nil, err
	}
	say := c.Say
	if say == nil {
		say = func(string) {}
	}
	held, err := c.contract(ctx)
	if err != nil {
		return nil, err
	}
	m := Model{Open: func(string, int) (kernels.Backend, error) { return c.open() }, Device: c.Device, Shape: size.shape,
		Options: model.Options{Precision: model.BF16, Cache: model.BF16}}
	lim, b, err := m.begin()
	if err != nil {
		return nil, err
	}
	defer b.Close()
	r := &CardResult{Bench: "card", Backend: b.Name(), Order: b.Order(), Size: c.Size, Shape: size.shape, Limits: lim, say: say}
	r.add(held)
	if err := r.checkAgainstCPU(ctx, b, size); err != nil {
		r.addFailure("what a small model computes", err)
	}
	if err := r.measure(ctx, b, size); err != nil {
		r.addFailure("a model to measure", err)
	}
	return r, ctx.Err()
}

// addFailure records a failure of one part; the others go on.
func (r *CardResult) addFailure(what string, err error) {
	r.add(checkResult{What: what, Saw: err.Error()})
}

// add records a check.
func (r *CardResult) add(p checkResult) {
	r.Proofs = append(r.Proofs, p)
	r.say(p.What + ": " + p.verdict())
}

// measured records a speed.
func (r *CardResult) measured(s cardRate) {
	r.Speeds = append(r.Speeds, s)
	found, limit, share := s.cells()
	r.say(strings.TrimRight(fmt.Sprintf("%s: %s %s %s", s.What, found, limit, share), " "))
}

// measure measures each model: decoding, prefill, training, a step.
func (r *CardResult) measure(ctx context.Context, b kernels.Backend, size cardSize) error {
	p, err := model.Random(b, size.shape, model.Options{Precision: model.BF16, Cache: model.BF16, Recompute: model.RecomputeBlocks})
	if err != nil {
		return err
	}
	for _, batch := range size.batches {
		r.rate(fmt.Sprintf("decoding, %d at a time, %d tokens each in the cache", batch, size.context), func() (rate, limit float64, err error) {
			return r.decoding(ctx, p, size, batch)
		})
	}
	r.rate(fmt.Sprintf("a prompt of %d tokens", size.prefill), func() (rate, limit float64, err error) {
		return r.prompt(ctx, p, size)
	})
	if err := attachRandom(p, size.step.rank); err != nil {
		return err
	}
	for _, tokens := range size.training {
		r.rate(fmt.Sprintf("training on a sequence of %d tokens, LoRA rank %d", tokens, size.step.rank), func() (rate, limit float64, err error) {
			p.MaxRows = tokens
			took, err := r.training(ctx, b, p, tokens, size.runs)
			return float64(tokens) / took.Seconds(), 1 / p.TrainingWork(size.step.rank, tokens).Seconds(r.Limits.Products, r.Limits.Flops), err
		})
	}
	if err := r.step(ctx, b, p, size.step); err != nil {
		r.addFailure("sampler = trainer", err)
	}
	return b.Sync()
}

// rate measures and records a speed.
func (r *CardResult) rate(what string, measure func() (rate, limit float64, err error)) {
	s := cardRate{What: what}
	var err error
	if s.Rate, s.Limit, err = measure(); err != nil {
		s.Rate, s.Trouble = 0, err.Error()
	}
	r.measured(s)
}

func (r *CardResult) decoding(ctx context.Context, p *model.Policy, size cardSize, batch int) (rate, limit float64, err error) {
	s, err := newSequences(p, max(batch, size.context), batch, size.context, decodeSteps)
	if err != nil {
		return 0, 0, err
	}
	if err = s.prefill(1); err != nil {
		return 0, 0, err
	}
	s.spread()
	took, err := timeRuns(ctx, size.runs, func() error { return s.decode(decodeSteps) })
	rate, limit = r.sampled(p, batch, batch, size.context, took/decodeSteps)
	return rate, limit, err
}

func (r *CardResult) prompt(ctx context.Context, p *model.Policy, size cardSize) (rate, limit float64, err error) {
	s, err := newSequences(p, size.prefill, 1, size.prefill, 1)
	if err != nil {
		return 0, 0, err
	}
	took, err := timeRuns(ctx, size.runs, func() error { return s.prefill(1) })
	rate, limit = r.sampled(p, size.prefill, 1, size.prefill, took)
	return rate, limit, err
}

// sampled is the speed of sampling, and the limit by the GPU's memory bandwidth and products.
func (r *CardResult) sampled(p *model.Policy, tokens, sequences, context int, took time.Duration) (rate, limit float64) {
	work, bytes := p.SamplingWork(tokens, context, sequences)
	return float64(tokens) / took.Seconds(), float64(tokens) / max(work.Seconds(r.Limits.Products, r.Limits.Flops), bytes/r.Limits.Bytes)
}

func (r *CardResult) training(ctx context.Context, b kernels.Backend, p *model.Policy, tokens, runs int) (time.Duration, error) {
	s, err := trainStepOf(b, p, tokens)
	if err != nil {
		return 0, err
	}
	return timeRuns(ctx, runs, func() error { return s.gradients(ctx) })
}

// Report is the result for people.
func (r *CardResult) Report() Report {
	t := Report{Above: r.Limits.above(r.Backend) + fmt.Sprintf("sums: %s; %s, random weights of %s\n\n", r.Order, r.Size, r.Shape),
		Header: []string{"what", "found", "limit", "share"}}
	for _, p := range r.Proofs {
		t.row(p.What, p.verdict(), "", "")
	}
	for _, s := range r.Speeds {
		found, limit, share := s.cells()
		t.row(s.What, found, limit, share)
	}
	t.Below = "\n"
	return t
}

func (p checkResult) verdict() string {
	if p.Holds {
		return "holds: " + p.Saw
	}
	return "FAILS: " + p.Saw
}

// cells are a speed, the GPU's limit, and the share of it.
func (s cardRate) cells() (found, limit, share string) {
	switch {
	case s.Trouble != "":
		return s.Trouble, "", ""
	case s.Limit > 0:
		return perSecond(s.Rate), fmt.Sprintf("%.1f", s.Limit), percent(s.Rate / s.Limit)
	}
	return perSecond(s.Rate), "", ""
}

// Check is an error if a check failed, or could not be made.
func (r *CardResult) Check() error {
	for _, p := range r.Proofs {
		if !p.Holds {
			return fmt.Errorf("%s: %s", p.What, p.Saw)
		}
	}
	for _, s := range r.Speeds {
		if s.Trouble != "" {
			return fmt.Errorf("%s: %s", s.What, s.Trouble)
		}
	}
	return nil
}
