package model

import (
	"fmt"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/nf4"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/arch"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// weights are the base weights in a backend's memory, by slot, as the kernels read them. A frozen matrix
// keeps the encoding of its file; the matrices of a fully trained model are copies of its masters.
type weights struct {
	b         kernels.Backend
	cfg       Config
	precision Precision   // of products with matrices
	order     []arch.Slot // of the forward pass
	slots     map[string]arch.Slot
	operands  map[string]*program.Operand

	frequencies program.Operand // of the rotary embedding: F64 [Heads.Dim/2]
}

// newWeights lists the weights of a model, without their operands.
func newWeights(b kernels.Backend, cfg Config, p Precision) (*weights, error) {
	w := &weights{b: b, cfg: cfg, precision: p, order: cfg.Slots(), slots: map[string]arch.Slot{}, operands: map[string]*program.Operand{}}
	for _, s := range w.order {
		w.slots[s.Name] = s
	}
	turns := cfg.Frequencies()
	buf, err := b.Alloc(kernels.F64, len(turns))
	if err != nil {
		return nil, err
	}
	b.Upload(buf, turns)
	w.frequencies = program.Operand{Buf: buf, Width: len(turns)}
	return w, nil
}

func (w *weights) has(name string) bool { _, ok := w.slots[name]; return ok }

// loadFrozen reads every tensor of a model.
func loadFrozen(b kernels.Backend, cfg Config, set *tensorfile.Set, o Options) (*weights, error) {
	w, err := newWeights(b, cfg, o.Precision)
	if err != nil {
		return nil, err
	}
	read, _ := o.Quantise.readers()
	return w, w.load(set, read, func(s arch.Slot, parts []stored) error {
		if s.Vector {
			return w.addVector(s, floats(parts))
		}
		return w.loadMatrix(s, parts)
	})
}

// load reads and checks the parts of each slot, passes them to take, and releases them.
func (w *weights) load(set *tensorfile.Set, codes nf4.Reader, take func(s arch.Slot, parts []stored) error) error {
	for _, s := range w.order {
		parts, err := readParts(set, s, codes)
		if err != nil {
			return err
		}
		if err = take(s, parts); err == nil {
			err = w.b.Sync()
		}
		if err != nil {
			return fmt.Errorf("load %s: %w", s.Name, err)
		}
		for _, p := range s.Parts {
			set.Release(p.Tensor)
		}
	}
	return nil
}

// addVector makes the operand of a frozen vector.
func (w *weights) addVector(s arch.Slot, values []float32) error {
	buf, err := w.b.Alloc(kernels.F32, s.Size())
	if err != nil {
		return err
	}
	w.b.Upload(buf, values)
	w.operands[s.Name] = operand(s, buf, nil)
	return nil
}

// addMatrix makes the operand of a matrix, to be filled by the caller.
func (w *weights) addMatrix(s arch.Slot, t kernels.DType) (kernels.Matrix, error) {
	m, err := w.b.NewMatrix(t, s.Rows(), s.Cols)
	if err != nil {
		return nil, err
	}
	w.operands[s.Name] = operand(s, nil, m)
	return m, nil
}

// loadMatrix makes a frozen matrix from its parts, in the encoding of the files; with precision bf16 it is rounded to that.
func (w *weights) loadMatrix(s arch.Slot, parts []stored) error {
	inBF16 := !slices.ContainsFunc(parts, func(p stored) bool { return p.encoding() != kernels.EncodedBF16 })
	dtype := w.precision.Frozen()
	if !inBF16 && w.precision != BF16 {
		dtype = kernels.F32
	}
	if codes := allCodes(parts); codes != nil && inBF16 {
		m, err := kernels.NewQuantised(w.b, w.precision.Quantised(), codes...)
		w.operands[s.Name] = operand(s, nil, m)
		return err
	}
	m, err := w.addMatrix(s, dtype)
	if err != nil {
		return err
	}
	row := 0
	for i, p := range parts {
		if dtype == kernels.F32 {
			w.b.Load(m, row, p.numbers())
		} else {
			for first, rows := range tensorfile.RowsInBF16(p.numbers(), s.Cols) {
				w.b.Load(m, row+first, rows)
			}
		}
		row += s.Parts[i].Rows
	}
	return w.b.Compress(m)
}

// bytes is the memory of the matrices.
func (w *weights) bytes() int {
	n := 0
	for _, o := range w.operands {
		if o.Mat != nil {
			n += o.Mat.Bytes()
		}
	}
	return n
}

// count is the number of weights.
func (w *weights) count() int {
	n := 0
	for _, s := range w.order {
		n += s.Size()
	}
	return n
}

// operand describes an allocated weight to the graph.
func operand(s arch.Slot, buf kernels.Buffer, mat kernels.Matrix) *program.Operand {
	o := &program.Operand{Buf: buf, Mat: mat, Width: s.Cols}
	if s.Vector && len(s.Parts) > 1 && !s.Bias() {
		for i := range s.Parts {
			o.Aux = append(o.Aux, buf.Slice(i*s.Cols, (i+1)*s.Cols))
		}
	}
	return o
}
