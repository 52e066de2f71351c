package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
)

// TrainResult is a forward and backward pass of one sequence with a LoRA adapter, or for all weights, and Adam's update.
type TrainResult struct {
	Bench        string         `json:"bench"`
	Backend      string         `json:"backend"`
	Shape        string         `json:"shape"`
	Tokens       int            `json:"tokens"`
	Train        string         `json:"train"`
	Rank         int            `json:"rank"` // of the adapter; 0: all weights are trained
	Adapter      string         `json:"adapter_precision"`
	KV           string         `json:"kv_cache_dtype"`
	Recompute    string         `json:"recompute"`
	Limits       hardwareLimits `json:"limits"`
	TokensPerSec float64        `json:"tokens_per_s"`
	LimitPerSec  float64        `json:"limit_tokens_per_s"`
	UpdateSec    float64        `json:"update_s"`
	AllocsBytes  float64        `json:"allocated_bytes_per_step"`
	PeakMemory   int64          `json:"peak_resident_bytes"`
}

// Train measures training without a sampler; of all weights if the rank is 0.
func Train(ctx context.Context, m *Model) (*TrainResult, error) {
	if err := m.checkRecompute(); err != nil {
		return nil, err
	}
	lim, b, err := m.begin()
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if err := m.chooseRecompute(b, func() (int64, error) {
		ledger := kernels.NewLedger(b)
		step, err := newTrainStep(ledger, m)
		if err != nil {
			return 0, err
		}
		return plannedBytes(ledger, step.policy, m.Tokens)
	}); err != nil {
		return nil, err
	}
	step, err := newTrainStep(b, m)
	if err != nil {
		return nil, err
	}
	took, err := timeRuns(ctx, m.Runs, func() error { return step.gradients(ctx) })
	if err != nil {
		return nil, err
	}
	update, err := timeRuns(ctx, m.Runs, step.update)
	if err != nil {
		return nil, err
	}
	r := &TrainResult{
		Bench: "train", Backend: b.Name(), Shape: m.Shape, Tokens: m.Tokens, Train: "lora", Rank: m.Rank, Limits: lim,
		Adapter: step.policy.AdapterPrecision.String(), KV: step.policy.Cache.String(), Recompute: m.Options.Recompute.String(),
		TokensPerSec: float64(m.Tokens) / took.Seconds(),
		LimitPerSec:  1 / step.policy.TrainingWork(m.Rank, m.Tokens).Seconds(lim.Products, lim.Flops),
		UpdateSec:    update.Seconds(), PeakMemory: peakMemory(),
	}
	if m.Rank == 0 {
		r.Train = "full"
	}
	r.AllocsBytes, err = step.allocations(ctx)
	return r, err
}

// Report is the result for people.
func (r *TrainResult) Report() Report {
	update := time.Duration(r.UpdateSec * float64(time.Second))
	t := Report{Above: r.Limits.above(r.Backend), Header: []string{
		"shape", "tokens", "trained", "recompute", "forward+backward", "limit", "share", "update", "peak memory", "allocated a step"}}
	trained := "all weights"
	if r.Rank > 0 {
		trained = fmt.Sprintf("rank %d", r.Rank)
	}
	t.row(r.Shape, fmt.Sprint(r.Tokens), trained, r.Recompute, perSecond(r.TokensPerSec), fmt.Sprintf("%.1f", r.LimitPerSec),
		percent(r.TokensPerSec/r.LimitPerSec), update.Round(time.Millisecond/10).String(),
		gigabytes(r.PeakMemory), fmt.Sprintf("%.0f B", r.AllocsBytes))
	return t
}

// trainStep is a random model, of which an adapter or all weights are trained, and a random sequence.
type trainStep struct {
	policy *model.Policy
	adam   *optim.Adam
	datums []model.Datum
}

func newTrainStep(b kernels.Backend, m *Model) (*trainStep, error) {
	o := m.Options
	o.MaxRows = max(o.MaxRows, m.Tokens)
	if m.Rank == 0 {
		cfg, err := model.ShapeNamed(m.Shape)
		if err != nil {
			return nil, err
		}
		p, err := model.New(b, cfg, 1, o)
		if err != nil {
			return nil, err
		}
		return trainStepOf(b, p, m.Tokens)
	}
	p, err := model.Random(b, m.Shape, o)
	if err != nil {
		return nil, err
	}
	if err := attachRandom(p, m.Rank); err != nil {
		return nil, err
	}
	return trainStepOf(b, p, m.Tokens)
}

// trainStepOf makes a random sequence for a model.
func trainStepOf(b kernels.Backend, p *model.Policy, rows int) (s *trainStep, err error) {
	rng := rand.New(rand.NewPCG(3, 3))
	tokens := make([]int32, rows+1)
	for i := range tokens {
		tokens[i] = rng.Int32N(int32(p.Vocab))
	}
	s = &trainStep{policy: p, datums: []model.Datum{model.NewDatum(tokens, 1, make([]float32, rows), 1)}}
	params, grads, locate := p.Slabs()
	s.adam, err = optim.NewAdam(b, params, grads, optim.Defaults(), locate)
	return s, err
}

// attachRandom gives the model a random adapter.
func attachRandom(p *model.Policy, rank int) error {
	c := lora.Defaults()
	c.Rank = rank
	layout, err := lora.NewLayout(c, p.LoRADims())
	if err != nil {
		return err
	}
	adapter := lora.New(layout)
	rng := rand.New(rand.NewPCG(4, 4))
	for _, e := range layout.Entries() {
		values := adapter.Of(e)
		for i := range values {
			values[i] = 0.02 * (2*rng.Float32() - 1)
		}
	}
	return p.Attach(adapter)
}

// gradients is one forward and backward pass.
func (s *trainStep) gradients(ctx context.Context) error {
	_, err := s.accumulate(ctx)
	return err
}

// accumulate is gradients with its statistics. The loss is cross entropy, as importance ratios of a random model would overflow.
func (s *trainStep) accumulate(ctx context.Context) (model.Stats, error) {
	return s.policy.Accumulate(ctx, s.datums, model.Objective{
		Loss: kernels.Loss{Kind: kernels.CrossEntropy}, Reduction: model.TokenMean, Temperature: 1})
}

func (s *trainStep) update() error {
	if _, err := s.adam.Step(1e-5); err != nil {
		return err
	}
	s.policy.Publish()
	return nil
}

// allocations is how many bytes one more step allocates on the Go heap.
func (s *trainStep) allocations(ctx context.Context) (float64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := s.gradients(ctx); err != nil {
		return 0, err
	}
	if err := s.update(); err != nil {
		return 0, err
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc - before.TotalAlloc), nil
}
