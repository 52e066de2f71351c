package program

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Program is a graph compiled for batches of up to Rows rows: a flat list of backend calls over one
// arena, or two. It is a gorgonia.VM, and allocates nothing while running.
type Program struct {
	Rows    int
	T       int        // rows of the next run
	Outputs []*Operand // of the graph's outputs

	b      kernels.Backend
	steps  []instruction
	arenas arenas
	bytes  int
	open   bool
	x      Execution
}

var _ gorgonia.VM = (*Program)(nil)

// instruction is one operation with its operands in place.
type instruction struct {
	op   *Op
	out  *Operand
	in   []*Operand
	copy *Operand // what out must start as, or nil
}

// Compile plans the graph, places it in memory and binds every operation.
func Compile(b kernels.Backend, g *Graph, rows int, r Recompute) (*Program, error) {
	s, err := NewSchedule(g, r)
	if err != nil {
		return nil, err
	}
	l := s.Place(rows)
	p := &Program{Rows: rows, b: b, bytes: l.Bytes()}
	if p.arenas, err = l.allocate(b); err != nil {
		return nil, fmt.Errorf("activations of %d rows: %w; a smaller max_rows takes less", rows, err)
	}
	p.open = true
	operands, err := s.bind(b, p.arenas, l, rows)
	if err != nil {
		return nil, err
	}
	for _, n := range g.Outputs {
		p.Outputs = append(p.Outputs, operands[s.forward[n]])
	}
	for i, st := range s.steps {
		ins := instruction{op: s.values[st.out].op, out: operands[st.out], in: make([]*Operand, len(st.in))}
		for k, v := range st.in {
			ins.in[k] = operands[v]
		}
		if l.Copies[i] {
			ins.copy = ins.in[ins.op.InPlace-1]
		}
		p.steps = append(p.steps, ins)
	}
	return p, nil
}

// bind makes the operand of every value.
func (s *Schedule) bind(b kernels.Backend, a arenas, l *Layout, rows int) ([]*Operand, error) {
	operands := make([]*Operand, len(s.values))
	for v, val := range s.values {
		if val.leaf != nil {
			operands[v] = val.leaf
			continue
		}
		operands[v] = &Operand{}
		if l.Blocks[v] != nil {
			operands[v] = a.bind(val.op, l.Blocks[v], l.Planes[v], s.numbers(&s.values[v], rows), rows)
		}
		if n := val.op.Sums; n > 0 {
			var err error
			if operands[v].Buf, err = b.Alloc(kernels.F64, n); err != nil {
				return nil, fmt.Errorf("%s: %w", val.op.Name, err)
			}
		}
	}
	return operands, nil
}

// Bytes is the memory of the program's arenas.
func (p *Program) Bytes() int { return p.bytes }

// RunAll issues every operation for T rows. The results are there after the next Download.
func (p *Program) RunAll() error {
	if p.T > p.Rows {
		return fmt.Errorf("model: a batch of %d rows for a program of %d", p.T, p.Rows)
	}
	p.x = Execution{B: p.b, T: p.T}
	for i := range p.steps {
		st := &p.steps[i]
		if st.copy != nil {
			p.b.Copy(st.out.Buf, st.copy.Buf)
		}
		st.op.Run(&p.x, st.out, st.in)
		if st.op.Host != nil {
			if err := st.op.Host(&p.x, st.out, st.in); err != nil {
				return err
			}
		}
	}
	return nil
}

// Reset does nothing: a run leaves nothing behind that the next could see.
func (p *Program) Reset() {}

// Close gives the arenas back.
func (p *Program) Close() error {
	if p.open {
		p.arenas.release(p.b)
	}
	p.steps, p.open = nil, false
	return nil
}
