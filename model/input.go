package model

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/ops"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// inputs are the operands that change with each batch.
type inputs struct {
	tokens, positions, targets input // I32 [T]
	old, advantage, weight     input // F32 [T]
	starts                     input // I32 [sequences or spans + 1]
	parents                    input // I32 [spans]
	again                      input // I32 [tokens − T]
	run                        ops.Run
}

// grow allocates inputs for batches of so many rows.
func (in *inputs) grow(b kernels.Backend, rows int) error {
	for _, i := range []*input{&in.tokens, &in.positions, &in.targets, &in.parents, &in.again} {
		if err := i.grow(b, kernels.I32, rows); err != nil {
			return err
		}
	}
	for _, i := range []*input{&in.old, &in.advantage, &in.weight} {
		if err := i.grow(b, kernels.F32, rows); err != nil {
			return err
		}
	}
	return in.starts.grow(b, kernels.I32, rows+1)
}

// load uploads the batch of the next run.
func (in *inputs) load(b kernels.Backend, batch *Batch, temperature float32) {
	in.tokens.loadInts(b, batch.Tokens)
	in.positions.loadInts(b, batch.Positions)
	in.targets.loadInts(b, batch.Targets)
	in.starts.loadInts(b, batch.Starts)
	if len(batch.Weights) > 0 { // a batch to train on
		in.old.loadFloats(b, batch.OldLogProbs)
		in.advantage.loadFloats(b, batch.Advantages)
		in.weight.loadFloats(b, batch.Weights)
	}
	if len(batch.Again) > 0 {
		in.again.loadInts(b, batch.Again)
	}
	in.run.Spans = kernels.Spans{Starts: in.starts.Buf, N: len(batch.Starts) - 1}
	if len(batch.Parents) > 0 {
		in.parents.loadInts(b, batch.Parents)
		in.run.Spans.Parents = in.parents.Buf
	}
	in.run.Asked = ops.Targets{Again: in.again.Buf, Pairs: len(batch.Targets), Tokens: batch.Rows() + len(batch.Again)}
	in.run.InvTemp = 1 / temperature
}

// input is a leaf with one number for each row, and its copy on the host. The copy is as large as the leaf and
// boxed once, so that loading a batch allocates nothing. Rows beyond the batch are never read.
type input struct {
	program.Operand
	ints   []int32
	floats []float32
	boxed  any
}

// grow allocates so many numbers, after releasing the old ones.
func (in *input) grow(b kernels.Backend, t kernels.DType, rows int) error {
	if in.Buf != nil {
		b.Release(in.Buf)
		in.Buf = nil
	}
	buf, err := b.Alloc(t, rows)
	if err != nil {
		return fmt.Errorf("inputs of %d rows: %w", rows, err)
	}
	in.Operand = program.Operand{Buf: buf, Width: 1}
	if t == kernels.I32 {
		in.ints = kernels.Host[int32](b, rows)
		in.boxed = in.ints
	} else {
		in.floats = kernels.Host[float32](b, rows)
		in.boxed = in.floats
	}
	return nil
}

func (in *input) loadInts(b kernels.Backend, src []int32) {
	copy(in.ints, src)
	b.Upload(in.Buf, in.boxed)
}

func (in *input) loadFloats(b kernels.Backend, src []float32) {
	copy(in.floats, src)
	b.Upload(in.Buf, in.boxed)
}

// fetch downloads the start of a buffer of floats into the host copy, and returns n of them.
func (in *input) fetch(b kernels.Backend, src kernels.Buffer, n int) ([]float32, error) {
	err := b.Download(in.boxed, src)
	return in.floats[:n], err
}
