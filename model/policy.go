package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model/internal/arch"
	"github.com/seed-7879b91d/grpo/model/internal/asked"
	"github.com/seed-7879b91d/grpo/model/internal/consistent"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// Policy is a model to score and train: base weights, trained parameters, and the programs that use both. It is not safe for concurrent
// use. There is nothing to close: its memory is freed with it, or with the backend.
type Policy struct {
	Config
	Options
	// Progress, if set, is called after each batch of Accumulate, ScoreTargets, ScoreBase and ScoreLearned.
	Progress func(sequences, tokens int)

	b       kernels.Backend
	order   kernels.Order // of the backend's sums when the policy was opened; each run sets it again
	weights *weights
	trained trainable
	inputs  inputs
	rows    int // the maximum rows of the input leaves and of every program

	scorer, trainer *program.Program
	graphs          program.Graphs // of a sketch
	packer          packer
	logp            input                     // scratch on the host, for log-probabilities of a batch
	stats           [kernels.NumStats]float64 // the loss statistics of a batch
	statsAny        any                       // stats, boxed once
}

// Options are choices between memory, time and precision.
type Options struct {
	// MaxRows is the size of a micro-batch in tokens, if no sequence is longer. 0: 512. Scores do not depend
	// on it; gradients do in their last bits, as it changes how sums over rows are split.
	MaxRows   int
	Recompute Recompute
	Precision Precision
	// SharePrefixes computes common prefixes in a batch once. Scores do not depend on it; gradients do in their last bits.
	SharePrefixes    bool
	Cache            Precision // of keys and values, both in a decoder's KV cache and in training; not I16
	AdapterPrecision Precision // what an adapter's matrices and their inputs are rounded to in products
	Quantise         Quantisation
	Frozen           bool // inference only: no memory for gradients, also where there is an adapter
}

// weightOptions lists the options that two policies must have in common to share weights.
func (o Options) weightOptions() string {
	return fmt.Sprintf("precision=%s kv_cache_dtype=%s adapter_precision=%s quantize=%s", o.Precision, o.Cache, o.AdapterPrecision, o.Quantise)
}

const UsualRows = 512 // the default of MaxRows

// Recompute selects activation checkpointing: what the backward pass recomputes instead of keeping it.
type Recompute = program.Recompute

// The levels of activation checkpointing.
const RecomputeNone, RecomputeCheap, RecomputeBlocks = program.RecomputeNone, program.RecomputeCheap, program.RecomputeBlocks

// Open reads the model in dir. With trainable all its weights are trained, in f32; else they are frozen, as stored in the file.
func Open(b kernels.Backend, dir string, trainable bool, o Options) (*Policy, error) {
	return OpenContext(context.Background(), b, dir, trainable, o)
}

// OpenContext is Open that stops with the error of ctx when ctx is done.
func OpenContext(ctx context.Context, b kernels.Backend, dir string, trainable bool, o Options) (*Policy, error) {
	precondition.NotNil("model.OpenContext", "ctx", ctx)
	cfg, err := ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	set, err := tensorfile.OpenModel(dir)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	set.SetContext(ctx)
	return OpenSet(b, cfg, set, trainable, o)
}

// OpenSet is Open for tensors that the caller has opened, such as those of a file in another format.
func OpenSet(b kernels.Backend, cfg Config, set *tensorfile.Set, trainable bool, o Options) (*Policy, error) {
	if err := consistent.Check(cfg, set); err != nil {
		return nil, err
	}
	cfg = consistent.Published(cfg, set)
	o = o.resolved(b, func() bool { return !trainable && consistent.OnlyBF16(cfg, set) })
	if trainable && o.Quantise != AsStored {
		return nil, errQuantisedWhole
	}
	if trainable {
		m, err := loadMasters(b, cfg, set, o)
		if err != nil {
			return nil, err
		}
		return newPolicy(b, cfg, m.weights, m, o), nil
	}
	if err := asked.Integers(b, set, o.Precision == I16, o.Quantise == NF4); err != nil {
		return nil, err
	}
	w, err := loadFrozen(b, cfg, set, o)
	if err != nil {
		return nil, err
	}
	return newPolicy(b, cfg, w, noTrainable{}, o), nil
}

// Random makes a model of a shape that Shapes lists, with random frozen weights, for benchmarks.
func Random(b kernels.Backend, shape string, o Options) (*Policy, error) {
	cfg, err := arch.ShapeNamed(shape)
	if err != nil {
		return nil, err
	}
	o = o.resolved(b, func() bool { return true })
	if err := asked.Integers(b, nil, o.Precision == I16, o.Quantise == NF4); err != nil {
		return nil, err
	}
	w, err := randomWeights(b, cfg, 1, o)
	if err != nil {
		return nil, err
	}
	return newPolicy(b, cfg, w, noTrainable{}, o), nil
}

func newPolicy(b kernels.Backend, cfg Config, w *weights, t trainable, o Options) *Policy {
	o.MaxRows = cmp.Or(o.MaxRows, UsualRows)
	p := &Policy{Config: cfg, Options: o, b: b, weights: w, trained: t, graphs: program.GraphsFor(b)}
	p.order, _ = kernels.OrderOf(b)
	p.statsAny = p.stats[:]
	return p
}

// Twin makes another policy over the same frozen weights, which stay in memory as long as either is in use. It has its own
// adapter (none yet) and programs, and computes the same bits as a policy that was opened by itself. Both must be used by the
// goroutine that uses the backend.
func (p *Policy) Twin() (*Policy, error) {
	if _, whole := p.trained.(*masters); whole {
		return nil, badinput.Errorf("Twin shares frozen weights, and a model with train=full trains them; open it with train=lora")
	}
	twin := newPolicy(p.b, p.Config, p.weights, noTrainable{}, p.Options)
	twin.order = p.order
	return twin, nil
}

// TwinWith is Twin with other options, as long as these do not require other weights: MaxRows, Recompute, SharePrefixes, Frozen.
func (p *Policy) TwinWith(o Options) (*Policy, error) {
	o = o.resolved(p.b, func() bool { return p.Precision == BF16 })
	if o.weightOptions() != p.weightOptions() {
		return nil, badinput.Errorf("the model is open with %s, and cannot be shared by a policy with %s", p.weightOptions(), o.weightOptions())
	}
	twin, err := p.Twin()
	if err == nil {
		twin.Options = o
		twin.MaxRows = cmp.Or(o.MaxRows, UsualRows)
	}
	return twin, err
}

// Attach copies an adapter to the policy, and replaces any before. Decoders, engines and optimizers made before still use the old one.
// Values that are not finite are refused.
func (p *Policy) Attach(a *lora.Adapter) error {
	precondition.NotNil("model.Policy.Attach", "a", a)
	if _, whole := p.trained.(*masters); whole {
		return badinput.Errorf("an adapter cannot be attached to a model with train=full")
	}
	if err := asked.Adapter(a, p.LoRADims(), p.weights.planned()); err != nil {
		return err
	}
	t, err := newAdapter(p.b, a, p.Options)
	if err != nil {
		return err
	}
	p.trained = t
	p.closePrograms()
	clear(p.graphs)
	return nil
}

// Slabs are the trained parameters and their gradients, nil if nothing is trained. locate names the tensor at an offset.
func (p *Policy) Slabs() (params, grads kernels.Buffer, locate func(int) string) {
	params, grads = p.trained.slabs()
	return params, grads, p.trained.locate
}

// Spared are the ranges [from, to) of the slabs that are exempt from weight decay: norms, biases and the embedding of a
// model that is fully trained. An adapter has none.
func (p *Policy) Spared() (ranges [][2]int) {
	m, whole := p.trained.(*masters)
	if !whole {
		return nil
	}
	for _, s := range m.order {
		from := m.offsets[s.Name]
		to := from + program.AlignUp(s.Size())
		switch n := len(ranges); {
		case !s.Vector && s.Name != arch.Embedding:
		case n > 0 && ranges[n-1][1] == from:
			ranges[n-1][1] = to
		default:
			ranges = append(ranges, [2]int{from, to})
		}
	}
	return ranges
}

var errQuantisedWhole = badinput.Errorf("quantize: weights in four bits cannot be trained; type quantize=none, or train=lora")
var errNoAdapter = errors.New("model: no adapter is attached")

// Adapter copies the adapter's parameters to the host. It is an error if there is no adapter.
func (p *Policy) Adapter() (*lora.Adapter, error) {
	if a, ok := p.trained.(*adapter); ok {
		return a.host(a.slab.Params, make([]float32, a.Len()))
	}
	return nil, errNoAdapter
}

// Gradients copies the adapter's gradients to the host. It is an error if there is no adapter, or it is Frozen.
func (p *Policy) Gradients() (*lora.Adapter, error) {
	if a, ok := p.trained.(*adapter); ok && a.slab.Grads != nil {
		return a.host(a.slab.Grads, make([]float32, a.Len()))
	}
	return nil, errNoAdapter
}

// Hash is the SHA-256 of the trained parameters. It first checks that the copies that kernels read are up to
// date with the optimizer's masters.
func (p *Policy) Hash() (string, error) { return p.trained.verify() }

// Publish copies parameters that an optimizer has changed to the matrices that kernels read. It belongs after each step of an optimizer.
func (p *Policy) Publish() { p.trained.publish() }

// WeightBytes is the memory of the base weights, WeightCount their number, and TrainableCount the number of trained parameters.
func (p *Policy) WeightBytes() int    { return p.weights.bytes() }
func (p *Policy) WeightCount() int    { return p.weights.count() }
func (p *Policy) TrainableCount() int { return p.trained.count() }

// LayerWeights are the memory and the number of the weights in the layers' matrices, without the embedding and the head.
func (p *Policy) LayerWeights() (bytes, count int) {
	for l := range p.Layers {
		for _, m := range p.BlockMatrices() {
			name := arch.At(l, strings.TrimPrefix(m.Name, "layers.0."))
			bytes, count = bytes+p.weights.operands[name].Mat.Bytes(), count+m.Size()
		}
	}
	return bytes, count
}
