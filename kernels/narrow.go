package kernels

// Narrower is a backend that has buffers of BF16, to keep activations for the backward pass in half the memory. Operations read them as
// PointOps says; all other inputs must be F32.
type Narrower interface {
	// Narrow does what the function of that name does, and Widen likewise.
	Narrow(out, x Buffer, n int)
	Widen(out, x Buffer, n int)
}

// Narrows reports whether a backend is a Narrower.
func Narrows(b Backend) bool {
	_, ok := unwrap(b).(Narrower)
	return ok
}

// Narrow: out BF16 [n] = x [n], rounded to the nearest, ties to even.
func Narrow(b Backend, out, x Buffer, n int) {
	c := callOf(b, "Narrow")
	c.size("n", n, 0)
	c.buffer("out", out, BF16, n)
	c.f32("x", x, n)
	unwrap(b).(Narrower).Narrow(out, x, n)
}

// Widen: out [n] = x BF16 [n].
func Widen(b Backend, out, x Buffer, n int) {
	c := callOf(b, "Widen")
	c.size("n", n, 0)
	c.f32("out", out, n)
	c.buffer("x", x, BF16, n)
	unwrap(b).(Narrower).Widen(out, x, n)
}

// callOf begins the checks of an operation that needs a Narrower.
func callOf(b Backend, op string) checker {
	c := begin(b, op)
	if !Narrows(b) {
		c.fail("%s has no buffers of bf16", b.Name())
	}
	return c
}

// activation checks an activation that a gradient reads: F32, or BF16 if the backend is a Narrower.
func (k *checked) activation(c checker, name string, b Buffer, n int) {
	if b != nil && b.DType() == BF16 && Narrows(k.b) {
		c.buffer(name, b, BF16, n)
		return
	}
	c.f32(name, b, n)
}
