package model

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Program is a graph compiled for batches of up to Rows rows: a flat list of backend calls over one
// arena. It is a gorgonia.VM, and allocates nothing while running.
type Program struct {
	Rows int

	x      execution
	steps  []instruction
	inputs *inputs
	starts input
	arena  kernels.Buffer
	result *operand
	stats  kernels.Buffer // F64 [kernels.NumStats]; nil in a program that does not train
}

var _ gorgonia.VM = (*Program)(nil)

// instruction is one operation with its operands in place.
type instruction struct {
	run  func(x *execution, out *operand, in []*operand)
	out  *operand
	in   []*operand
	copy *operand // what out must start as, or nil
}

// compile plans the graph, places it in memory and binds every operation.
func compile(b kernels.Backend, g *graph, in *inputs, rows int, r Recompute) (*Program, error) {
	s, err := g.plan(r)
	if err != nil {
		return nil, err
	}
	l := s.place(rows)
	p := &Program{Rows: rows, inputs: in, x: execution{b: b, invTemp: 1}}
	if p.arena, err = b.Alloc(kernels.F32, l.floats); err != nil {
		return nil, fmt.Errorf("arena of %d rows: %w", rows, err)
	}
	if err = p.starts.grow(b, kernels.I32, rows+1); err != nil {
		return nil, err
	}
	if g.loss != nil {
		if p.stats, err = b.Alloc(kernels.F64, kernels.NumStats); err != nil {
			return nil, err
		}
	}
	operands := make([]*operand, len(s.values))
	for v, val := range s.values {
		switch {
		case val.leaf != nil:
			operands[v] = val.leaf
		case l.blocks[v] != nil:
			operands[v] = val.op.bind(p.arena, l.blocks[v], rows)
		}
	}
	p.result = operands[s.forward[g.result]]
	if g.loss != nil {
		operands[s.forward[g.loss]].buf = p.stats
	}
	for i, st := range s.steps {
		o := s.values[st.out].op
		ins := instruction{run: o.run, out: operands[st.out], in: make([]*operand, len(st.in))}
		for k, v := range st.in {
			ins.in[k] = operands[v]
		}
		if l.copies[i] {
			ins.copy = ins.in[o.inPlace]
		}
		p.steps = append(p.steps, ins)
	}
	return p, nil
}

// Bytes is the memory of the program's arena.
func (p *Program) Bytes() int { return 4 * p.arena.Len() }

// Load makes b the batch of the next run.
func (p *Program) Load(b *Batch, temperature float32, loss kernels.Loss) error {
	if b.Rows() > p.Rows || b.Rows() == 0 {
		return fmt.Errorf("model: a batch of %d rows for a program of %d", b.Rows(), p.Rows)
	}
	be, in := p.x.b, p.inputs
	in.tokens.loadInts(be, b.Tokens)
	in.positions.loadInts(be, b.Positions)
	in.targets.loadInts(be, b.Targets)
	p.starts.loadInts(be, b.Starts)
	if p.stats != nil {
		in.old.loadFloats(be, b.OldLogProbs)
		in.advantage.loadFloats(be, b.Advantages)
		in.weight.loadFloats(be, b.Weights)
	}
	p.x.T = b.Rows()
	p.x.spans = kernels.Spans{Starts: p.starts.buf, N: len(b.Starts) - 1}
	p.x.invTemp = 1 / temperature
	p.x.loss = loss
	return nil
}

// RunAll issues every operation for the batch that was loaded. The results are there after the next
// Download.
func (p *Program) RunAll() error {
	for i := range p.steps {
		st := &p.steps[i]
		if st.copy != nil {
			p.x.b.Copy(st.out.buf, st.copy.buf)
		}
		st.run(&p.x, st.out, st.in)
	}
	return nil
}

// Reset does nothing: a run leaves nothing behind that the next could see.
func (p *Program) Reset() {}

// Close gives the arena back.
func (p *Program) Close() error {
	p.steps, p.arena = nil, nil
	return nil
}
