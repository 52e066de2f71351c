package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
)

// Weights are the base weights in a backend's memory, by slot. Frozen, a matrix keeps the encoding of
// its file; trainable, its f32 master lies in Params and the matrix is what the kernels read.
type Weights struct {
	cfg       Config
	precision Precision // of what is multiplied with frozen matrices
	slots     map[string]slot
	operands  map[string]*operand

	// The masters and gradients of a model that is trained as a whole; nil when frozen.
	Params, Grads kernels.Buffer
	scratch       kernels.Buffer // of the largest slot, for verify
	offsets       map[string]int
	order         []string
}

func (w *Weights) has(name string) bool { _, ok := w.slots[name]; return ok }

// master and grad are a slot's places in the slabs of a trainable model.
func (w *Weights) master(name string) kernels.Buffer { return w.within(w.Params, name) }
func (w *Weights) grad(name string) kernels.Buffer   { return w.within(w.Grads, name) }

func (w *Weights) within(slab kernels.Buffer, name string) kernels.Buffer {
	at := w.offsets[name]
	return slab.Slice(at, at+w.slots[name].size())
}

// newWeights lays out a model without values; trainable, with slabs.
func newWeights(b kernels.Backend, cfg Config, trainable bool) (*Weights, error) {
	w := &Weights{cfg: cfg, slots: map[string]slot{}, operands: map[string]*operand{}, offsets: map[string]int{}}
	size, largest := 0, 0
	for _, s := range cfg.slots() {
		largest = max(largest, s.size())
		w.slots[s.name] = s
		w.order = append(w.order, s.name)
		w.offsets[s.name] = size
		size += alignUp(s.size())
	}
	if !trainable {
		return w, nil
	}
	var err error
	if w.Params, err = b.Alloc(kernels.F32, size); err != nil {
		return nil, fmt.Errorf("master weights: %w", err)
	}
	if w.Grads, err = b.Alloc(kernels.F32, size); err != nil {
		return nil, fmt.Errorf("gradients: %w", err)
	}
	if w.scratch, err = b.Alloc(kernels.F32, largest); err != nil {
		return nil, err
	}
	return w, nil
}

// loadWeights reads every tensor of the model; trainable, into f32 masters.
func loadWeights(b kernels.Backend, cfg Config, set *tensorfile.Set, trainable bool, p Precision) (*Weights, error) {
	if trainable && p != F32 {
		return nil, badinput.Errorf("a precision of bf16 is for frozen weights: those that are trained are f32; take precision f32")
	}
	w, err := newWeights(b, cfg, trainable)
	if err != nil {
		return nil, err
	}
	w.precision = p
	for _, name := range w.order {
		if s := w.slots[name]; s.vector || trainable {
			if w.operands[name], err = w.floatOperand(b, s); err != nil {
				return nil, err
			}
		}
	}
	if err := w.load(b, set); err != nil {
		return nil, err
	}
	w.Publish(b)
	return w, nil
}

// load fills the weights with the tensors of a model: f32 values where there is room for them, matrices
// as the file has them elsewhere.
func (w *Weights) load(b kernels.Backend, set *tensorfile.Set) error {
	for _, name := range w.order {
		s := w.slots[name]
		tensors := make([]tensorfile.Tensor, len(s.parts))
		var err error
		for i, p := range s.parts {
			if tensors[i], err = set.Tensor(p.tensor, s.shape(p)...); err != nil {
				return err
			}
			if err := tensorfile.CheckFinite(tensors[i]); err != nil {
				return err
			}
		}
		if s.vector || w.Params != nil {
			w.loadFloats(b, s, tensors)
		} else {
			err = w.loadMatrix(b, s, tensors)
		}
		if err == nil {
			err = b.Sync()
		}
		if err != nil {
			return fmt.Errorf("load %s: %w", name, err)
		}
		for _, p := range s.parts {
			set.Release(p.tensor)
		}
	}
	return nil
}

// loadMatrix gives the kernels a frozen matrix as the file has it.
func (w *Weights) loadMatrix(b kernels.Backend, s slot, tensors []tensorfile.Tensor) error {
	dtype := w.precision.Frozen()
	for _, t := range tensors {
		if t.Encoding != kernels.EncodedBF16 {
			dtype = kernels.F32
		}
	}
	if dtype == kernels.F32 && w.precision != F32 {
		return badinput.Errorf("a precision of bf16 is for weights in bf16, and these are not; take precision f32")
	}
	m, err := b.NewMatrix(dtype, s.rows(), s.cols)
	if err != nil {
		return err
	}
	row := 0
	for i, t := range tensors {
		b.Load(m, row, kernels.HostRows{Encoding: t.Encoding, Bytes: t.Bytes})
		row += s.parts[i].rows
	}
	w.operands[s.name] = s.leafOperand(nil, m)
	return b.Compress(m)
}

// loadFloats gives a slot f32 values: a vector, or the master of a trainable matrix.
func (w *Weights) loadFloats(b kernels.Backend, s slot, tensors []tensorfile.Tensor) {
	var values []float32
	for _, t := range tensors {
		values = append(values, tensorfile.Float32s(t)...)
	}
	dst := w.operands[s.name].buf
	if w.Params != nil {
		dst = w.master(s.name)
	}
	b.Upload(dst, values)
}

// floatOperand makes the operand of a vector (in the slab, if there is one) or of an f32 matrix.
func (w *Weights) floatOperand(b kernels.Backend, s slot) (*operand, error) {
	if !s.vector {
		m, err := b.NewMatrix(kernels.F32, s.rows(), s.cols)
		return s.leafOperand(nil, m), err
	}
	if w.Params != nil {
		return s.leafOperand(w.master(s.name), nil), nil
	}
	buf, err := b.Alloc(kernels.F32, s.size())
	if err != nil {
		return nil, err
	}
	return s.leafOperand(buf, nil), nil
}

// Publish shows the kernels the masters as they are now.
func (w *Weights) Publish(b kernels.Backend) {
	if w.Params == nil {
		return
	}
	for _, name := range w.order {
		if m := w.operands[name].mat; m != nil {
			b.Pack(m, 0, w.master(name))
		}
	}
}

// verify wants every matrix that the kernels read to hold its masters, number by number, and gives the
// SHA-256 of all of them.
func (w *Weights) verify(b kernels.Backend) (hash string, err error) {
	if w.Params == nil {
		return "", fmt.Errorf("model: frozen weights have no name; attach an adapter, or train them")
	}
	h := sha256.New()
	masters, read := make([]float32, w.scratch.Len()), make([]float32, w.scratch.Len())
	for _, name := range w.order {
		n := w.slots[name].size()
		if err := b.Download(masters[:n], w.master(name)); err != nil {
			return "", err
		}
		if m := w.operands[name].mat; m != nil {
			b.Unpack(w.scratch, m)
			if err := b.Download(read[:n], w.scratch); err != nil {
				return "", err
			}
			for i, v := range masters[:n] {
				if math.Float32bits(v) != math.Float32bits(read[i]) {
					return "", fmt.Errorf("%s was changed but not published: the sampler would read an older model", w.locate(w.offsets[name]+i))
				}
			}
		}
		if err := binary.Write(h, binary.LittleEndian, masters[:n]); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// locate names the tensor at an offset of the slabs.
func (w *Weights) locate(offset int) string {
	for _, name := range w.order {
		s, at := w.slots[name], w.offsets[name]
		for _, p := range s.parts {
			if n := p.rows * s.cols; offset < at+n {
				return p.tensor
			} else {
				at += n
			}
		}
	}
	return "padding"
}

// Bytes is the memory that the matrices take.
func (w *Weights) Bytes() int {
	n := 0
	for _, o := range w.operands {
		if o.mat != nil {
			n += o.mat.Bytes()
		}
	}
	return n
}

// randomRows is how many rows of a random matrix are drawn at a time.
const randomRows = 1024

// randomWeights makes a model of that shape whose values mean nothing but are not zero, for
// benchmarks: normal-like with standard deviation 0.02, norms of one.
func randomWeights(b kernels.Backend, cfg Config, seed uint64, p Precision) (*Weights, error) {
	w, err := newWeights(b, cfg, false)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 0x6770726f))
	var rows []byte
	for _, name := range w.order {
		s := w.slots[name]
		if s.vector {
			o, err := w.floatOperand(b, s)
			if err != nil {
				return nil, err
			}
			ones := make([]float32, s.size())
			for i := range ones {
				ones[i] = 1
			}
			b.Upload(o.buf, ones)
			w.operands[name] = o
			continue
		}
		m, err := b.NewMatrix(p.Frozen(), s.rows(), s.cols)
		if err != nil {
			return nil, err
		}
		w.operands[name] = s.leafOperand(nil, m)
		for row := 0; row < s.rows(); row += randomRows {
			n := min(randomRows, s.rows()-row)
			rows = randomBF16(rng, rows[:0], n*s.cols)
			b.Load(m, row, kernels.HostRows{Encoding: kernels.EncodedBF16, Bytes: rows})
			if err := b.Sync(); err != nil {
				return nil, err
			}
		}
		if err := b.Compress(m); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// randomBF16 appends n numbers: the sum of four bytes of a random word, centred and scaled, is close
// enough to normal.
func randomBF16(rng *rand.Rand, out []byte, n int) []byte {
	for i := 0; i < n; i += 2 {
		r := rng.Uint64()
		for half := range min(2, n-i) {
			x := uint32(r >> (32 * half))
			v := normalBF16[x&255+x>>8&255+x>>16&255+x>>24]
			out = append(out, byte(v), byte(v>>8))
		}
	}
	return out
}

// normalBF16 turns a sum of four bytes into the upper half of a float32: standard deviation 0.02, and
// never zero.
var normalBF16 = func() (table [4*255 + 1]uint16) {
	const spread = 147.8 // of the sum of four bytes
	for sum := range table {
		x := float32((float64(sum) - 509.75) * 0.02 / spread)
		table[sum] = uint16(math.Float32bits(x) >> 16)
	}
	return table
}()
