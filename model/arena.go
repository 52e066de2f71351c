package model

import (
	"slices"

	"github.com/seed-7879b91d/grpo/kernels"
)

// block is a piece of the arena: one value's memory, or that of several that follow one another in
// place. It is in use from the step that writes it first to the step that reads it last.
type block struct {
	floats      int
	first, last int
	offset      int
}

// align is what every piece of memory starts at a multiple of, in floats: a cache line.
const align = 16

func alignUp(n int) int { return (n + align - 1) / align * align }

// layout is where each value of a schedule lies.
type layout struct {
	blocks  []*block // of each value; nil for leaves, gradients of parameters and scalars
	copies  []bool   // of each step: the input that it overwrites must be copied first
	floats  int      // the size of the arena
	inPlace int      // how many steps took over the memory of an input, for those who are curious
}

// place decides the memory of every value for batches of up to rows rows.
func (s *schedule) place(rows int) *layout {
	l := &layout{blocks: make([]*block, len(s.values)), copies: make([]bool, len(s.steps))}
	last := s.lastUses()
	for i, st := range s.steps {
		v := &s.values[st.out]
		if v.leaf != nil || v.op.width == 0 && len(v.op.aux) == 0 {
			continue
		}
		if k := v.op.inPlace; k >= 0 {
			if b := l.blocks[st.in[k]]; b != nil && last[st.in[k]] == i && uses(st.in, st.in[k]) == 1 {
				b.last = last[st.out]
				l.blocks[st.out] = b
				l.inPlace++
				continue
			}
			l.copies[i] = v.op.mutates
		}
		l.blocks[st.out] = &block{floats: v.op.floats(rows), first: i, last: last[st.out]}
	}
	l.floats = assign(l.blocks)
	return l
}

// lastUses gives the last step that reads each value; outputs are read after the last.
func (s *schedule) lastUses() []int {
	last := make([]int, len(s.values))
	for i, st := range s.steps {
		last[st.out] = i
		for _, v := range st.in {
			last[v] = i
		}
	}
	for v := range s.values {
		if s.values[v].output {
			last[v] = len(s.steps)
		}
	}
	return last
}

func uses(in []int, v int) int {
	n := 0
	for _, x := range in {
		if x == v {
			n++
		}
	}
	return n
}

// floats is the memory of an output with its planes.
func (o *op) floats(rows int) int {
	n := alignUp(rows * o.width)
	for _, w := range o.aux {
		n += alignUp(rows * w)
	}
	return n
}

// assign gives each block an offset such that blocks in use at the same time do not overlap: the
// largest first, each at the lowest place that is free for its whole life. It returns the size of it
// all.
func assign(all []*block) int {
	var blocks []*block
	seen := map[*block]bool{}
	for _, b := range all {
		if b != nil && !seen[b] {
			seen[b] = true
			blocks = append(blocks, b)
		}
	}
	slices.SortStableFunc(blocks, func(a, b *block) int { return b.floats - a.floats })
	size := 0
	var placed []*block // by offset
	for _, b := range blocks {
		b.offset = 0
		for _, p := range placed {
			if p.last < b.first || b.last < p.first || p.offset+p.floats <= b.offset {
				continue
			}
			if b.offset+b.floats <= p.offset {
				break
			}
			b.offset = p.offset + p.floats
		}
		at, _ := slices.BinarySearchFunc(placed, b.offset, func(p *block, off int) int { return p.offset - off })
		placed = slices.Insert(placed, at, b)
		size = max(size, b.offset+b.floats)
	}
	return size
}

// bind makes the operand of a placed value.
func (o *op) bind(arena kernels.Buffer, b *block, rows int) *operand {
	at := b.offset
	take := func(width int) kernels.Buffer {
		buf := arena.Slice(at, at+rows*width)
		at += alignUp(rows * width)
		return buf
	}
	out := &operand{width: o.width}
	if o.width > 0 {
		out.buf = take(o.width)
	}
	for _, w := range o.aux {
		out.aux = append(out.aux, take(w))
	}
	return out
}
