package kernels

// RowRounder is a backend whose operations can write rows already rounded to BF16, if these are only multiplied afterwards: a product
// would round them anyway, so no bit changes, and half as much is written and read. The backend chooses the layout of such rows.
//
// RMSNorm, Rope, QKNormRope and its GradX, SwiGLU, GeGLU and their gradients write rounded rows if their output is BF16. In the order of
// tiles these can be x or dy of products with matrices of BF16Rounding, and x or dy (not both) of LinearGradW with factors of BF16, in
// windows that are multiples of 32 columns. Outputs of QKNormRope and of Rope (without back) can only be read by Attention and its
// gradient with keys and values of BF16: their queries are multiplied by Attn.Factor before they are rounded.
type RowRounder interface {
	// RoundedLen is the length of a buffer for T rounded rows of that width; 0 if the backend has none of the width.
	RoundedLen(width, T int) int
}

// RoundsRows returns the backend as a RowRounder, or nil if it is none in that order.
func RoundsRows(b Backend, o Order) RowRounder {
	if r, ok := unwrap(b).(RowRounder); ok && o == Tiles {
		return r
	}
	return nil
}

// roundedLen is RoundedLen, or 0 if the backend is no RowRounder.
func roundedLen(b Backend, width, T int) int {
	if r := RoundsRows(b, Tiles); r != nil {
		return r.RoundedLen(width, T)
	}
	return 0
}

// output checks an output of T rows, F32 or rounded.
func (k *checked) output(c checker, name string, out Buffer, width, T int) {
	if out != nil && out.DType() == BF16 && roundedLen(k.b, width, 1) > 0 {
		c.buffer(name, out, BF16, roundedLen(k.b, width, T))
		return
	}
	c.f32(name, out, T*width)
}

// multiplied checks an input of n columns of T rows, F32 or rounded.
func (c checker) multiplied(b Backend, name string, w Cols, n, T int) {
	if w.Buf == nil || w.Buf.DType() != BF16 || roundedLen(b, w.Stride, 1) == 0 {
		c.cols(name, w, n, T)
		return
	}
	c.window(name, w, n)
	if roundedLen(b, w.From, 1) == 0 || roundedLen(b, w.N, 1) == 0 {
		c.fail("%s is columns [%d, %d) of rounded rows, expected whole 32s", name, w.From, w.From+w.N)
	}
	c.buffer(name, w.Buf, BF16, roundedLen(b, w.Stride, T))
}
