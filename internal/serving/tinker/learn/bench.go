package learn

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/wire"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
)

// Bench trains adapters of one layout. It is safe for concurrent use, but each model by one goroutine at a time. The turn
// is held during computation, and released between two batches.
type Bench struct {
	mu     sync.Mutex // one model at a time, even while the turn is released
	policy *model.Policy
	adam   *optim.Adam
	turn   sync.Locker
	layout *lora.Layout
	grads  kernels.Buffer
	params kernels.Buffer
	b      kernels.Backend
	on     *Model // the model whose numbers are in the slabs
}

// Model is an adapter in training. Its numbers are here unless it is on the bench.
type Model struct {
	layout *lora.Layout
	params []float32
	grads  []float32 // nil: all zero
	adam   optim.State
	dirty  bool // a gradient was accumulated since the last step
}

// NewBench makes a bench over the weights of a base. turn is the lock for the backend.
func NewBench(b kernels.Backend, base *model.Policy, c lora.Config, turn sync.Locker) (*Bench, error) {
	turn.Lock()
	defer turn.Unlock()
	layout, err := lora.NewLayout(c, base.LoRADims())
	if err != nil {
		return nil, err
	}
	p, err := base.Twin()
	if err != nil {
		return nil, err
	}
	if err := p.Attach(lora.New(layout)); err != nil {
		return nil, err
	}
	bench := &Bench{policy: p, turn: turn, layout: layout, b: b}
	var locate func(int) string
	bench.params, bench.grads, locate = p.Slabs()
	bench.adam, err = optim.NewAdam(b, bench.params, bench.grads, optim.Defaults(), locate)
	p.Progress = func(int, int) { // let others compute between two batches
		turn.Unlock()
		turn.Lock()
	}
	return bench, err
}

// NewModel makes a new adapter, whose output is zero.
func (b *Bench) NewModel(seed uint64) *Model {
	a := lora.New(b.layout)
	a.Init(seed)
	return &Model{layout: b.layout, params: a.Values}
}

// Remove forgets a model that nobody uses.
func (b *Bench) Remove(m *Model) {
	if !b.mu.TryLock() {
		return
	}
	defer b.mu.Unlock()
	if b.on == m {
		b.on = nil
	}
}

// take brings a model onto the bench.
func (b *Bench) take(m *Model) error {
	if b.on == m {
		return nil
	}
	if old := b.on; old != nil {
		if err := b.park(old); err != nil {
			return err
		}
	}
	b.on = nil // until it is complete
	b.b.Upload(b.params, m.params)
	b.b.Zero(b.grads)
	if m.grads != nil {
		b.b.Upload(b.grads, m.grads)
	}
	if err := b.adam.Resume(&m.adam); err != nil {
		return err
	}
	b.policy.Publish()
	if err := b.b.Sync(); err != nil {
		return err
	}
	b.on = m
	return nil
}

// park copies the state of a model from the bench to the host.
func (b *Bench) park(m *Model) error {
	if m.grads == nil && m.dirty {
		m.grads = make([]float32, len(m.params))
	}
	if m.grads != nil {
		if err := b.b.Download(m.grads, b.grads); err != nil {
			return err
		}
	}
	return errors.Join(b.b.Download(m.params, b.params), b.adam.Park(&m.adam))
}

// with calls do with a model on the bench.
func (b *Bench) with(m *Model, do func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn.Lock()
	defer b.turn.Unlock()
	if err := b.take(m); err != nil {
		return err
	}
	return do()
}

// Run computes a loss, and unless the request is for the loss only adds its gradient. Errors marked by badinput occur
// before anything has changed.
func (b *Bench) Run(ctx context.Context, m *Model, r wire.ForwardBackward) (out wire.Output, err error) {
	t, err := read(r)
	if err != nil {
		return out, err
	}
	return out, b.with(m, func() error {
		for i, d := range t.datums {
			d.Mask = slices.Repeat([]bool{true}, d.Rows()) // masked rows need a log-probability, too
			if err := d.Check(b.policy.Config); err != nil {
				return fmt.Errorf("data %d: %w", t.of[i], err)
			}
		}
		lp, err := b.policy.ScoreTargets(ctx, t.datums, 1)
		if err != nil {
			return err
		}
		if i, lost := t.lost(lp); lost {
			return badinput.Errorf("data %d: its log-probabilities are not finite, so the training has diverged: load_weights of an earlier "+
				"checkpoint, and go on with a lower learning_rate", i)
		}
		if !r.ForwardOnly {
			m.dirty = true
			if _, err := b.policy.Accumulate(ctx, t.datums, t.objective()); err != nil {
				return err
			}
		}
		out = t.output(lp)
		return nil
	})
}

// lost finds a datum with a log-probability that is NaN.
func (t *task) lost(lp [][]float32) (datum int, lost bool) {
	for i, values := range lp {
		if slices.ContainsFunc(values, func(x float32) bool { return x != x }) {
			return t.of[i], true
		}
	}
	return 0, false
}

// output collects the log-probabilities of each of the client's datums.
func (t *task) output(lp [][]float32) wire.Output {
	out := wire.Output{Metrics: map[string]float64{"loss:sum": t.sum(lp)}}
	for _, shape := range t.shapes {
		k := 1
		if len(shape) == 2 {
			k = int(shape[1])
		}
		values := make([]float32, len(lp[0])*k)
		for c, column := range lp[:k] {
			for i, v := range column {
				values[i*k+c] = v
			}
		}
		out.LogProbs = append(out.LogProbs, wire.Tensor{DType: wire.F32, Shape: slices.Clone(shape), Floats: values})
		lp = lp[k:]
	}
	return out
}

// Step updates a model with its gradient, and zeroes that. A gradient that is not finite is discarded, and an error.
func (b *Bench) Step(m *Model, c optim.Config, rate float64) (map[string]float64, error) {
	var u optim.Update
	err := b.with(m, func() error {
		if err := b.adam.Configure(c); err != nil {
			return err
		}
		var err error
		if u, err = b.adam.Step(rate); badinput.Is(err) {
			return err
		}
		b.adam.ZeroGrad()
		m.dirty, m.grads = false, nil
		if err == nil {
			b.policy.Publish()
			err = b.b.Sync()
		}
		return err
	})
	var bad *optim.NonFiniteError
	if errors.As(err, &bad) {
		err = badinput.Errorf("%w; the gradient was thrown away", err)
	}
	if err != nil {
		return nil, err
	}
	// Programs put these among numbers of their own, of which one is called step.
	return map[string]float64{"grad_norm": u.GradNorm, "clip_scale": u.ClipScale, "updates": float64(u.Step)}, nil
}

// Clean reports whether no gradient is accumulated, so that Save loses nothing.
func (m *Model) Clean() bool { return !m.dirty }

const stateName = "optimizer.safetensors"

// Save writes the adapter to dir, with base as its base model, and if state is set the optimizer's state.
func (b *Bench) Save(m *Model, dir, base string, state bool) error {
	return b.with(m, func() error {
		if err := b.policy.Save(dir, base); err != nil || !state {
			return err
		}
		return b.adam.SaveState(filepath.Join(dir, stateName))
	})
}

// Load loads what Save wrote. Without state the optimizer starts anew. The gradient becomes zero.
func (b *Bench) Load(m *Model, dir string, state bool) error {
	saved, err := lora.Load(dir, b.layout.Dims)
	if err != nil {
		return err
	}
	if saved.Len() != b.layout.Len() || !slices.Equal(saved.Entries(), b.layout.Entries()) || saved.Scale() != b.layout.Scale() {
		return badinput.Errorf("the saved weights have rank %d and targets %v, the model has rank %d and targets %v",
			saved.Config.Rank, saved.Config.Targets, b.layout.Config.Rank, b.layout.Config.Targets)
	}
	return b.with(m, func() error {
		if state {
			if err := b.adam.LoadState(filepath.Join(dir, stateName)); err != nil {
				return err
			}
		} else if err := b.adam.Resume(&optim.State{}); err != nil {
			return err
		}
		m.dirty, m.grads = false, nil
		b.adam.ZeroGrad()
		b.b.Upload(b.params, saved.Values)
		b.policy.Publish()
		return b.b.Sync()
	})
}
