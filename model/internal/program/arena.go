package program

import (
	"slices"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Block is a piece of the arena: one value's memory, or that of several that follow one another in
// place. It is live from the step that writes it first to the step that reads it last.
type Block struct {
	Floats      int
	First, Last int // steps
	Offset      int
}

// align is what every piece of memory starts at a multiple of, in floats: a cache line.
const align = 16

// AlignUp is the next multiple of a cache line, in floats.
func AlignUp(n int) int { return (n + align - 1) / align * align }

// Layout is where each value of a schedule lies.
type Layout struct {
	Blocks  []*Block // of each value; nil for leaves, gradients of parameters and scalars
	Copies  []bool   // of each step: the input that it overwrites must be copied first
	Floats  int      // the size of the arena
	InPlace int      // how many steps took over the memory of an input, for those who are curious
}

// Place decides the memory of every value for batches of up to rows rows.
func (s *Schedule) Place(rows int) *Layout {
	l := &Layout{Blocks: make([]*Block, len(s.values)), Copies: make([]bool, len(s.steps))}
	last := s.lastUses()
	for i, st := range s.steps {
		v := &s.values[st.out]
		if v.leaf != nil || v.op.Width == 0 && len(v.op.Aux) == 0 {
			continue
		}
		if v.op.InPlace > 0 {
			over := st.in[v.op.InPlace-1]
			if b := l.Blocks[over]; b != nil && last[over] == i && uses(st.in, over) == 1 {
				b.Last = last[st.out]
				l.Blocks[st.out] = b
				l.InPlace++
				continue
			}
			l.Copies[i] = v.op.Mutates
		}
		l.Blocks[st.out] = &Block{Floats: v.op.floats(rows), First: i, Last: last[st.out]}
	}
	l.Floats = assign(l.Blocks)
	return l
}

// lastUses is the liveness of every value: the last step that reads it. Outputs are read after all steps.
func (s *Schedule) lastUses() []int {
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
func (o *Op) floats(rows int) int {
	n := AlignUp(rows * o.Width)
	for _, w := range o.Aux {
		n += AlignUp(rows * w)
	}
	return n
}

// assign gives each block an offset such that blocks in use at the same time do not overlap: the
// largest first, each at the lowest place that is free for its whole life. It returns the size of it
// all.
func assign(all []*Block) int {
	var blocks []*Block
	seen := map[*Block]bool{}
	for _, b := range all {
		if b != nil && !seen[b] {
			seen[b] = true
			blocks = append(blocks, b)
		}
	}
	slices.SortStableFunc(blocks, func(a, b *Block) int { return b.Floats - a.Floats })
	size := 0
	var placed []*Block // by offset
	for _, b := range blocks {
		b.Offset = 0
		for _, p := range placed {
			if p.Last < b.First || b.Last < p.First || p.Offset+p.Floats <= b.Offset {
				continue
			}
			if b.Offset+b.Floats <= p.Offset {
				break
			}
			b.Offset = p.Offset + p.Floats
		}
		at, _ := slices.BinarySearchFunc(placed, b.Offset, func(p *Block, off int) int { return p.Offset - off })
		placed = slices.Insert(placed, at, b)
		size = max(size, b.Offset+b.Floats)
	}
	return size
}

// bind makes the operand of a placed value.
func (o *Op) bind(arena kernels.Buffer, b *Block, rows int) *Operand {
	at := b.Offset
	take := func(width int) kernels.Buffer {
		buf := arena.Slice(at, at+rows*width)
		at += AlignUp(rows * width)
		return buf
	}
	out := &Operand{Width: o.Width}
	if o.Width > 0 {
		out.Buf = take(o.Width)
	}
	for _, w := range o.Aux {
		out.Aux = append(out.Aux, take(w))
	}
	return out
}
