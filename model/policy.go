package model

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
)

// Policy is a model that can be scored and trained: base weights, perhaps an adapter, and the programs
// that use them. It is not safe for concurrent use.
type Policy struct {
	Config
	Options
	// Progress, where set, is told of each batch that Accumulate is done with.
	Progress func(sequences, tokens int)

	b       kernels.Backend
	weights *Weights
	adapter *Adapter
	inputs  inputs
	rows    int // the size of the input leaves and of every program

	scorer, trainer *Program
	packer          packer
	logp            input                     // the log-probabilities of a batch, on the host
	stats           [kernels.NumStats]float64 // its statistics
	statsAny        any
}

// Options are the choices of memory against time.
type Options struct {
	// MaxRows is the size of a batch in tokens; a longer sequence makes room for itself. 0: 512. Scores do
	// not depend on it; gradients do in the last bits, as sums that are cut elsewhere.
	MaxRows   int
	Recompute Recompute
	Precision Precision
}

const defaultRows = 512

// Open reads the model in dir. With trainable, all its weights can be trained; else they are frozen
// as the file has them.
func Open(b kernels.Backend, dir string, trainable bool, o Options) (*Policy, error) {
	cfg, err := ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	set, err := tensorfile.OpenModel(dir)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	w, err := loadWeights(b, cfg, set, trainable, o.Precision)
	if err != nil {
		return nil, err
	}
	return newPolicy(b, cfg, w, o), nil
}

// Random makes a model of a shape that Shapes lists, with weights that mean nothing.
func Random(b kernels.Backend, shape string, o Options) (*Policy, error) {
	cfg, err := shapeNamed(shape)
	if err != nil {
		return nil, err
	}
	w, err := randomWeights(b, cfg, 1, o.Precision)
	if err != nil {
		return nil, err
	}
	return newPolicy(b, cfg, w, o), nil
}

func newPolicy(b kernels.Backend, cfg Config, w *Weights, o Options) *Policy {
	if o.MaxRows == 0 {
		o.MaxRows = defaultRows
	}
	p := &Policy{Config: cfg, Options: o, b: b, weights: w}
	p.statsAny = p.stats[:]
	return p
}

// Attach gives the policy an adapter, in place of any before.
func (p *Policy) Attach(a *lora.Adapter) error {
	if p.weights.Grads != nil {
		return badinput.Errorf("an adapter cannot be attached to a model that is trained as a whole")
	}
	if a.Dims != p.LoRADims() {
		return badinput.Errorf("adapter for a model of sizes %+v, this one has %+v", a.Dims, p.LoRADims())
	}
	var err error
	p.adapter, err = newAdapter(p.b, p.Config, a)
	p.scorer, p.trainer = nil, nil
	return err
}

// Slabs are the trainable parameters and their gradients; locate names the tensor at an offset.
func (p *Policy) Slabs() (params, grads kernels.Buffer, locate func(int) string) {
	if p.adapter != nil {
		return p.adapter.Params, p.adapter.Grads, p.adapter.Locate
	}
	return p.weights.Params, p.weights.Grads, p.weights.locate
}

// Adapter copies the adapter's parameters to the host.
func (p *Policy) Adapter() (*lora.Adapter, error) {
	host := lora.New(p.adapter.Layout)
	return host, p.b.Download(host.Values, p.adapter.Params)
}

// Gradients copies the adapter's gradients to the host.
func (p *Policy) Gradients() (*lora.Adapter, error) {
	host := lora.New(p.adapter.Layout)
	return host, p.b.Download(host.Values, p.adapter.Grads)
}

// Hash names the parameters that programs and decoders read, after checking that they are those that the
// optimizer has: the SHA-256 of their numbers.
func (p *Policy) Hash() (string, error) {
	if p.adapter == nil {
		return p.weights.verify(p.b)
	}
	return p.adapter.verify(p.b)
}

// Publish makes parameters that an optimizer has changed the ones that every later program reads.
func (p *Policy) Publish() {
	p.weights.Publish(p.b)
	if p.adapter != nil {
		p.adapter.Publish(p.b)
	}
}

// Score gives log p(s[i+1] | s[..i]) for every token but the first of each sequence, of the
// distribution at that temperature.
func (p *Policy) Score(ctx context.Context, sequences [][]int32, temperature float32) ([][]float32, error) {
	longest := 0
	for i, s := range sequences {
		if err := p.CheckSequence(s); err != nil {
			return nil, fmt.Errorf("sequence %d: %w", i, err)
		}
		longest = max(longest, len(s)-1)
	}
	if err := p.prepare(&p.scorer, longest, false); err != nil {
		return nil, err
	}
	out := make([][]float32, len(sequences))
	for _, batch := range p.packer.packToScore(sequences, p.MaxRows) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		logp, err := p.run(p.scorer, batch, temperature, kernels.Loss{})
		if err != nil {
			return nil, err
		}
		for k, i := range batch.Sequences {
			out[i] = slices.Clone(logp[batch.Starts[k]:batch.Starts[k+1]])
		}
	}
	return out, nil
}

// Objective is what a step minimises.
type Objective struct {
	Loss        kernels.Loss
	Reduction   Reduction
	Temperature float32 // that the data were sampled at
}

// Accumulate adds the gradient of the objective over the datums to the gradient slab and reports what
// it saw. The gradients are zeroed by the optimizer, not here.
func (p *Policy) Accumulate(ctx context.Context, datums []Datum, o Objective) (Stats, error) {
	var stats Stats
	longest := 0
	for i, d := range datums {
		if err := d.Check(p.Config); err != nil {
			return stats, fmt.Errorf("datum %d: %w", i, err)
		}
		longest = max(longest, d.Rows())
	}
	if err := p.prepare(&p.trainer, longest, true); err != nil {
		return stats, err
	}
	// By MaxRows, not by the room that a longer sequence once made: a sum over batches keeps its order
	// whatever was seen before, so that a resumed run adds up as one that was not interrupted.
	for _, batch := range p.packer.pack(datums, p.MaxRows, o.Reduction) {
		if err := ctx.Err(); err != nil {
			return stats, err
		}
		if _, err := p.run(p.trainer, batch, o.Temperature, o.Loss); err != nil {
			return stats, err
		}
		if err := p.b.Download(p.statsAny, p.trainer.stats); err != nil {
			return stats, err
		}
		stats.add(&p.stats)
		if p.Progress != nil {
			p.Progress(len(batch.Sequences), batch.Rows())
		}
	}
	return stats, nil
}

// Prepare makes room for training and scoring sequences of that many tokens, so that none is too long for
// the memory later, and says how many bytes that takes.
func (p *Policy) Prepare(length int) (bytes int, err error) {
	if err := p.prepare(&p.scorer, length, false); err != nil {
		return 0, err
	}
	if err := p.prepare(&p.trainer, length, true); err != nil {
		return 0, err
	}
	return p.scorer.Bytes() + p.trainer.Bytes(), nil
}

// run loads and runs one batch and brings its log-probabilities to the host, until the next run.
func (p *Policy) run(prog *Program, batch *Batch, temperature float32, loss kernels.Loss) ([]float32, error) {
	if err := prog.Load(batch, temperature, loss); err != nil {
		return nil, err
	}
	if err := prog.RunAll(); err != nil {
		return nil, err
	}
	return p.logp.fetch(p.b, prog.result.buf, batch.Rows())
}

// prepare compiles a program, and compiles it again when a sequence does not fit.
func (p *Policy) prepare(prog **Program, longest int, train bool) error {
	if need := max(longest, p.MaxRows); need > p.rows {
		if err := p.grow(need); err != nil {
			return err
		}
	}
	if *prog != nil {
		return nil
	}
	b := &builder{cfg: p.Config, weights: p.weights, adapter: p.adapter, inputs: &p.inputs}
	if train && p.adapter == nil && !b.full() {
		return badinput.Errorf("nothing to train: attach an adapter, or open the model with train=full")
	}
	write := b.scoring
	if train {
		write = b.training
	}
	g, err := write()
	if err != nil {
		return err
	}
	*prog, err = compile(p.b, g, &p.inputs, p.rows, p.Recompute)
	return err
}

// grow makes room for batches of rows tokens; programs of the old size are gone.
func (p *Policy) grow(rows int) error {
	p.rows = alignUp(rows)
	p.scorer, p.trainer = nil, nil
	for _, in := range []*input{&p.inputs.tokens, &p.inputs.positions, &p.inputs.targets} {
		if err := in.grow(p.b, kernels.I32, p.rows); err != nil {
			return err
		}
	}
	for _, in := range []*input{&p.inputs.old, &p.inputs.advantage, &p.inputs.weight, &p.logp} {
		if err := in.grow(p.b, kernels.F32, p.rows); err != nil {
			return err
		}
	}
	return nil
}

// WeightBytes is the memory of the base weights, WeightCount their number, and TrainableCount the
// number of parameters that are trained.
func (p *Policy) WeightBytes() int { return p.weights.Bytes() }

func (p *Policy) WeightCount() int {
	n := 0
	for _, s := range p.weights.slots {
		n += s.size()
	}
	return n
}

func (p *Policy) TrainableCount() int {
	if p.adapter == nil {
		if p.weights.Params == nil {
			return 0
		}
		return p.WeightCount()
	}
	n := 0
	for _, e := range p.adapter.Entries() {
		n += e.Len()
	}
	return n
}
