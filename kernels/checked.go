package kernels

import "fmt"

// Checked wraps a backend in one that validates every call: shapes, types, sizes, and that nothing follows Close. So a
// mistake of the caller panics at the call, with the same message on every backend, although operations are queued; and b
// need not check again. Constructors of backends return checked ones.
//
// A buffer may be longer than the operation needs. The contents of buffers (token ids, positions, sequence starts) are
// not known at the call, and only b can tell whether an operand belongs to it: neither is checked here.
func Checked(b Backend) Backend {
	if _, done := b.(*checked); done {
		return b
	}
	return &checked{b: b}
}

// checked names its backend instead of embedding it, so that a new operation of the contract does not compile until it
// has checks here.
type checked struct {
	b      Backend
	closed bool
}

func (k *checked) Name() string { return k.b.Name() }

func (k *checked) Order() string { return k.b.Order() }

// call begins the checks of an operation.
func (k *checked) call(op string) checker {
	c := checker(op)
	if k.closed {
		c.fail("the backend is closed")
	}
	return c
}

// begin is call for operations that are functions of this package, not methods of Backend.
func begin(b Backend, op string) checker {
	if k, ok := b.(*checked); ok {
		return k.call(op)
	}
	return checker(op)
}

// checker is the name of the operation that is being checked.
type checker string

func (c checker) fail(format string, args ...any) {
	panic(fmt.Sprintf("kernels: %s: ", string(c)) + fmt.Sprintf(format, args...))
}

func (c checker) size(name string, n, least int) {
	if n < least {
		c.fail("%s is %d, expected at least %d", name, n, least)
	}
}

// rows checks the number of rows, and the width of one.
func (c checker) rows(T int, name string, width int) {
	c.size("T", T, 0)
	c.size(name, width, 1)
}

// usable checks a buffer of any type and size.
func (c checker) usable(name string, b Buffer) {
	if b == nil {
		c.fail("%s is nil", name)
	}
	if b.Released() {
		c.fail("%s has been released", name)
	}
}

func (c checker) buffer(name string, b Buffer, t DType, n int) {
	if b == nil {
		c.fail("%s is nil, expected %v [%d]", name, t, n)
	}
	c.usable(name, b)
	if b.DType() != t || b.Len() < n {
		c.fail("%s is %v [%d], expected %v [%d]", name, b.DType(), b.Len(), t, n)
	}
}

func (c checker) f32(name string, b Buffer, n int) { c.buffer(name, b, F32, n) }
func (c checker) i32(name string, b Buffer, n int) { c.buffer(name, b, I32, n) }
func (c checker) f64(name string, b Buffer, n int) { c.buffer(name, b, F64, n) }

// window checks that there are n columns inside the row.
func (c checker) window(name string, w Cols, n int) {
	if w.N != n || w.From < 0 || w.From+w.N > w.Stride {
		c.fail("%s is columns [%d, %d) of %d, expected %d columns inside the row",
			name, w.From, w.From+w.N, w.Stride, n)
	}
	c.size("the number of columns", w.N, 1)
}

// cols checks a window of n columns over T rows.
func (c checker) cols(name string, w Cols, n, T int) {
	c.window(name, w, n)
	least := 0
	if T > 0 {
		least = (T-1)*w.Stride + w.From + w.N
	}
	c.f32(name, w.Buf, least)
}

func (c checker) matrix(name string, m Matrix) {
	if m == nil {
		c.fail("%s is nil", name)
	}
}

func (c checker) heads(h Heads) {
	if h.Q < 1 || h.KV < 1 || h.Q%h.KV != 0 || h.Dim < 2 || h.Dim%2 != 0 {
		c.fail("heads are %d queries over %d keys of %d, expected a multiple of the keys and an even size",
			h.Q, h.KV, h.Dim)
	}
}

// cached checks the type of keys and values.
func (c checker) cached(t DType) {
	if t != F32 && t != BF16 {
		c.fail("keys and values are %v, expected f32 or bf16", t)
	}
}

func (c checker) attn(a Attn) {
	c.heads(a.Heads)
	c.size("the window", a.Window, 0)
	c.cap(a.Cap)
}

// cap checks the soft cap of scores or logits.
func (c checker) cap(x float32) {
	if !(x >= 0) {
		c.fail("the cap is %g, expected at least 0", x)
	}
}

func (c checker) spans(s Spans, a Attn, T int) {
	c.size("T", T, 0)
	c.attn(a)
	c.size("the number of spans", s.N, 0)
	c.i32("starts", s.Starts, s.N+1)
	if s.Parents != nil {
		c.i32("parents", s.Parents, s.N)
	}
}
