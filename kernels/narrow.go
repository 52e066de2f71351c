package kernels

// Narrower is a backend that has buffers of BF16, in which rows wait in half the memory. Where the operations of PointOps say so, they
// read them there; all others read F32.
type Narrower interface {
	// Narrow is what the function of that name wants, and Widen likewise.
	Narrow(out, x Buffer, n int)
	Widen(out, x Buffer, n int)
}

// Narrows tells whether a backend has buffers of BF16.
func Narrows(b Backend) bool {
	_, ok := inside(b).(Narrower)
	return ok
}

// Narrow: out BF16 [n] = x [n], rounded to the nearest, ties to even.
func Narrow(b Backend, out, x Buffer, n int) {
	c := callOf(b, "Narrow")
	c.size("n", n, 0)
	c.buffer("out", out, BF16, n)
	c.f32("x", x, n)
	inside(b).(Narrower).Narrow(out, x, n)
}

// Widen: out [n] = x BF16 [n].
func Widen(b Backend, out, x Buffer, n int) {
	c := callOf(b, "Widen")
	c.size("n", n, 0)
	c.f32("out", out, n)
	c.buffer("x", x, BF16, n)
	inside(b).(Narrower).Widen(out, x, n)
}

// callOf begins the checks of an operation that not every backend has.
func callOf(b Backend, op string) checker {
	c := begin(b, op)
	if !Narrows(b) {
		c.fail("%s has no buffers of bf16", b.Name())
	}
	return c
}

// kept checks a buffer of F32, or of BF16 where there are such.
func (k *checked) kept(c checker, name string, b Buffer, n int) {
	if b != nil && b.DType() == BF16 && Narrows(k.b) {
		c.buffer(name, b, BF16, n)
		return
	}
	c.f32(name, b, n)
}
