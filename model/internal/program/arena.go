package program

import (
	"slices"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Block is a piece of an arena: the memory of one value, or of several that are computed in place of each
// other. It is live from the step that writes it first to the step that reads it last.
type Block struct {
	Numbers     int
	Half        bool // bf16: it is in the arena for bf16
	First, Last int  // steps
	Offset      int
}

// align is the alignment of every piece of memory, in numbers: a cache line of f32, or half a line of bf16, which is what a GPU reads at
// once.
const align = 16

// AlignUp is the next multiple of a cache line, in floats.
func AlignUp(n int) int { return (n + align - 1) / align * align }

// Layout is the place of each value of a schedule in memory. F32 and bf16 have an arena each: values in bf16 are kept for the backward
// pass, and both arenas are full when that begins, so that one for both would hardly be smaller (0.2 % for 16,384 tokens of Qwen3-4B).
type Layout struct {
	Blocks  []*Block // of each value; nil for leaves, gradients of parameters and scalars
	Planes  []*Block // of each value that has planes, which are f32, and may be live for longer
	Copies  []bool   // of each step: the input that it overwrites must be copied first
	Floats  int      // the size of the arena for f32
	Halves  int      // the size of the arena for bf16
	InPlace int      // how many steps write to the memory of an input; for information only
}

// Bytes is the memory of both arenas.
func (l *Layout) Bytes() int { return kernels.F32.Size()*l.Floats + kernels.BF16.Size()*l.Halves }

// Place assigns memory to every value, for batches of up to rows rows.
func (s *Schedule) Place(rows int) *Layout {
	l := &Layout{Blocks: make([]*Block, len(s.values)), Planes: make([]*Block, len(s.values)), Copies: make([]bool, len(s.steps))}
	last, lastPlanes := s.lastUses()
	for i, st := range s.steps {
		v := &s.values[st.out]
		if v.leaf != nil || v.op.Width == 0 && len(v.op.Aux) == 0 {
			continue
		}
		if n := v.op.planes(rows); n > 0 {
			l.Planes[st.out] = &Block{Numbers: n, First: i, Last: lastPlanes[st.out]}
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
		l.Blocks[st.out] = &Block{Numbers: AlignUp(s.numbers(v, rows)), Half: v.half || v.round, First: i, Last: last[st.out]}
	}
	l.Floats, l.Halves = assign(l, false), assign(l, true)
	return l
}

// lastUses finds the last step that reads each value, and its planes. Outputs are read after all steps.
func (s *Schedule) lastUses() (numbers, planes []int) {
	numbers, planes = make([]int, len(s.values)), make([]int, len(s.values))
	for i, st := range s.steps {
		numbers[st.out], planes[st.out] = i, i
		for k, v := range st.in {
			planes[v] = i
			if !s.values[st.out].op.readsPlanes(k) {
				numbers[v] = i
			}
		}
	}
	for v := range s.values {
		if s.values[v].output {
			numbers[v], planes[v] = len(s.steps), len(s.steps)
		}
	}
	return numbers, planes
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

// numbers is the size of an output, including the padding of rounded rows, and planes the size of its planes.
func (s *Schedule) numbers(v *value, rows int) int {
	if v.round {
		return s.graph.Rounder.RoundedLen(v.op.Width, rows)
	}
	return rows * v.op.Width
}

func (o *Op) planes(rows int) (n int) {
	for _, w := range o.Aux {
		n += AlignUp(rows * w)
	}
	return n
}

// assign gives each block of an arena an offset such that blocks in use at the same time do not overlap: the
// largest first, each at the lowest place that is free for its whole life. It returns the size of it
// all.
func assign(l *Layout, half bool) int {
	var blocks []*Block
	seen := map[*Block]bool{}
	for _, b := range slices.Concat(l.Blocks, l.Planes) {
		if b != nil && b.Half == half && !seen[b] {
			seen[b] = true
			blocks = append(blocks, b)
		}
	}
	slices.SortStableFunc(blocks, func(a, b *Block) int { return b.Numbers - a.Numbers })
	size := 0
	var placed []*Block // by offset
	for _, b := range blocks {
		b.Offset = 0
		for _, p := range placed {
			if p.Last < b.First || b.Last < p.First || p.Offset+p.Numbers <= b.Offset {
				continue
			}
			if b.Offset+b.Numbers <= p.Offset {
				break
			}
			b.Offset = p.Offset + p.Numbers
		}
		at, _ := slices.BinarySearchFunc(placed, b.Offset, func(p *Block, off int) int { return p.Offset - off })
		placed = slices.Insert(placed, at, b)
		size = max(size, b.Offset+b.Numbers)
	}
	return size
}

// arenas are the memory of a program: the arena for f32, and that for bf16 or nil.
type arenas struct{ floats, halves kernels.Buffer }

// bind makes the operand of a placed value.
func (a arenas) bind(o *Op, b, planes *Block, numbers, rows int) *Operand {
	arena := a.floats
	if b.Half {
		arena = a.halves
	}
	out := &Operand{Width: o.Width}
	if o.Width > 0 {
		out.Buf = arena.Slice(b.Offset, b.Offset+numbers)
	}
	if planes == nil {
		return out
	}
	at := planes.Offset
	for _, w := range o.Aux {
		out.Aux = append(out.Aux, a.floats.Slice(at, at+rows*w))
		at += AlignUp(rows * w)
	}
	return out
}

// allocate allocates the arenas of a layout.
func (l *Layout) allocate(b kernels.Backend) (a arenas, err error) {
	if a.floats, err = b.Alloc(kernels.F32, l.Floats); err != nil || l.Halves == 0 {
		return a, err
	}
	if a.halves, err = b.Alloc(kernels.BF16, l.Halves); err != nil {
		b.Release(a.floats)
	}
	return a, err
}

func (a arenas) release(b kernels.Backend) {
	b.Release(a.floats)
	if a.halves != nil {
		b.Release(a.halves)
	}
}
