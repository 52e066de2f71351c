package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/given"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model/internal/arch"
	"github.com/seed-7879b91d/grpo/model/internal/consistent"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// Policy is a model that can be scored and trained: base weights, what of it is trained, and the programs that use both. It is not safe
// for concurrent use. There is nothing to close: its memory goes with the garbage, and with the backend.
type Policy struct {
	Config
	Options
	// Progress, where set, is told of each batch that Accumulate and ScoreTargets are done with.
	Progress func(sequences, tokens int)

	b       kernels.Backend
	order   kernels.Order // of the backend's sums when it was opened, which it keeps
	weights *weights
	trained trainable
	inputs  inputs
	rows    int // the size of the input leaves and of every program

	scorer, trainer *program.Program
	graphs          program.Graphs // of a sketch
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
	// SharePrefixes has what sequences of a batch begin with computed once. Scores do not depend on it; gradients do in the last bits.
	SharePrefixes    bool
	Cache            Precision // what keys and values are rounded to, in a decoder's cache and in training alike
	AdapterPrecision Precision // what an adapter's matrices are rounded to in products, and what they are multiplied with
	Quantise         Quantisation
	Frozen           bool // nothing is trained: what there is to train is only asked, and there are no gradients
}

// numbers are those that other weights, or other copies of an adapter, would be loaded for.
func (o Options) numbers() string {
	return fmt.Sprintf("precision=%s kv_cache_dtype=%s adapter_precision=%s quantize=%s", o.Precision, o.Cache, o.AdapterPrecision, o.Quantise)
}

const UsualRows = 512 // MaxRows where nobody says

// Recompute says how much of the forward pass the backward pass computes a second time, to save memory.
type Recompute = program.Recompute

// The choices of recomputation.
const RecomputeNone, RecomputeCheap, RecomputeBlocks = program.RecomputeNone, program.RecomputeCheap, program.RecomputeBlocks

// Open reads the model in dir. With trainable, all its weights can be trained; else they are frozen as the file has them.
func Open(b kernels.Backend, dir string, trainable bool, o Options) (*Policy, error) {
	return OpenContext(context.Background(), b, dir, trainable, o)
}

// OpenContext is Open until ctx is done: then it ends with the error of ctx.
func OpenContext(ctx context.Context, b kernels.Backend, dir string, trainable bool, o Options) (*Policy, error) {
	given.All("model.OpenContext", "ctx", ctx)
	cfg, err := ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	set, err := tensorfile.OpenModel(dir)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	set.Until(ctx)
	return OpenSet(b, cfg, set, trainable, o)
}

// OpenSet is Open for tensors that are found already, such as those of a file in another format.
func OpenSet(b kernels.Backend, cfg Config, set *tensorfile.Set, trainable bool, o Options) (*Policy, error) {
	if err := consistent.Check(cfg, set); err != nil {
		return nil, err
	}
	cfg = consistent.Published(cfg, set)
	o = o.settled(b, func() bool { return !trainable && consistent.OnlyBF16(cfg, set) })
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
	if err := o.checkWhole(b, set); err != nil {
		return nil, err
	}
	w, err := loadFrozen(b, cfg, set, o)
	if err != nil {
		return nil, err
	}
	return newPolicy(b, cfg, w, nothing{}, o), nil
}

// Random makes a model of a shape that Shapes lists, with weights that mean nothing.
func Random(b kernels.Backend, shape string, o Options) (*Policy, error) {
	cfg, err := arch.ShapeNamed(shape)
	if err != nil {
		return nil, err
	}
	o = o.settled(b, func() bool { return true })
	if err := o.checkWhole(b, nil); err != nil {
		return nil, err
	}
	w, err := randomWeights(b, cfg, 1, o)
	if err != nil {
		return nil, err
	}
	return newPolicy(b, cfg, w, nothing{}, o), nil
}

func newPolicy(b kernels.Backend, cfg Config, w *weights, t trainable, o Options) *Policy {
	o.MaxRows = cmp.Or(o.MaxRows, UsualRows)
	p := &Policy{Config: cfg, Options: o, b: b, weights: w, trained: t, graphs: program.GraphsFor(b)}
	p.order, _ = kernels.OrderOf(b)
	p.statsAny = p.stats[:]
	return p
}

// Twin is another policy over the same frozen weights, which are in memory once and stay there as long as either is in use.
// What is attached to it, what it learns and its programs are its own, and nothing is attached yet; its numbers are those of a
// policy that was opened by itself. Both are used by the goroutine that uses the backend.
func (p *Policy) Twin() (*Policy, error) {
	if _, whole := p.trained.(*masters); whole {
		return nil, badinput.Errorf("a model that is trained as a whole has no twin: its weights change; open it with train=lora")
	}
	twin := newPolicy(p.b, p.Config, p.weights, nothing{}, p.Options)
	twin.order = p.order
	return twin, nil
}

// TwinWith is Twin with batches and recomputation of its own. What the weights were loaded for must be the same.
func (p *Policy) TwinWith(o Options) (*Policy, error) {
	o = o.settled(p.b, func() bool { return p.Precision == BF16 })
	if o.numbers() != p.numbers() {
		return nil, badinput.Errorf("the model is open with %s, and cannot be shared with %s", p.numbers(), o.numbers())
	}
	twin, err := p.Twin()
	if err == nil {
		twin.Options = o
		twin.MaxRows = cmp.Or(o.MaxRows, UsualRows)
	}
	return twin, err
}

// Attach gives the policy a copy of an adapter, in place of any before, which decoders, engines and optimizers made before still use.
func (p *Policy) Attach(a *lora.Adapter) error {
	given.All("model.Policy.Attach", "a", a)
	if _, whole := p.trained.(*masters); whole {
		return badinput.Errorf("an adapter cannot be attached to a model that is trained as a whole")
	}
	if a.Dims != p.LoRADims() {
		return badinput.Errorf("adapter for a model of sizes %+v, this one has %+v", a.Dims, p.LoRADims())
	}
	if n := len(a.Values); n != a.Len() && n != 0 { // a sketch has none
		return badinput.Errorf("adapter of %d numbers, its layout has %d", n, a.Len())
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

// Slabs are the trainable parameters and their gradients, nil where nothing is trained; locate names the tensor at an offset.
func (p *Policy) Slabs() (params, grads kernels.Buffer, locate func(int) string) {
	params, grads = p.trained.slabs()
	return params, grads, p.trained.locate
}

// Spared are the ranges [from, to) of the slabs that no weight decay should shrink: norms, biases and the embedding of a
// model that is trained as a whole. An adapter has none.
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

var errQuantisedWhole = badinput.Errorf("quantize: weights in four bits cannot be trained themselves; type quantize=none, or train=lora")
var errNoAdapter = errors.New("model: no adapter is attached")

// Adapter copies the adapter's parameters to the host. Without an adapter it is an error.
func (p *Policy) Adapter() (*lora.Adapter, error) {
	if a, ok := p.trained.(*adapter); ok {
		return a.host(a.slab.Params, make([]float32, a.Len()))
	}
	return nil, errNoAdapter
}

// Gradients copies the adapter's gradients to the host. Without an adapter, or Frozen, it is an error.
func (p *Policy) Gradients() (*lora.Adapter, error) {
	if a, ok := p.trained.(*adapter); ok && a.slab.Grads != nil {
		return a.host(a.slab.Grads, make([]float32, a.Len()))
	}
	return nil, errNoAdapter
}

// Hash names the parameters that programs and decoders read, after checking that they are those that the
// optimizer has: the SHA-256 of their numbers.
func (p *Policy) Hash() (string, error) { return p.trained.verify() }

// Publish makes parameters that an optimizer has changed the ones that every later program reads.
func (p *Policy) Publish() { p.trained.publish() }

// WeightBytes is the memory of the base weights, WeightCount their number, and TrainableCount the number of parameters that are trained.
func (p *Policy) WeightBytes() int    { return p.weights.bytes() }
func (p *Policy) WeightCount() int    { return p.weights.count() }
func (p *Policy) TrainableCount() int { return p.trained.count() }

// LayerWeights are the matrices of the layers alone, without the embedding and the head: their memory and their number.
func (p *Policy) LayerWeights() (bytes, count int) {
	for l := range p.Layers {
		for _, m := range p.BlockMatrices() {
			name := arch.At(l, strings.TrimPrefix(m.Name, "layers.0."))
			bytes, count = bytes+p.weights.operands[name].Mat.Bytes(), count+m.Size()
		}
	}
	return bytes, count
}
