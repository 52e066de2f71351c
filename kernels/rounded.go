package kernels

// RowRounder is a backend that has rows of BF16 which are only multiplied: as a product rounds its rows to begin with, no bit of what it
// gives depends on who did, and half as much is written and read. How they lie is the backend's business.
//
// Such rows are what RMSNorm, Rope, QKNormRope and its GradX, SwiGLU, GeGLU and their gradients give, where their output is BF16. They are
// read, in the order of tiles, by what rounds them: as x or dy of products with matrices of BF16Rounding, and one of them of LinearGradW
// with factors of BF16; in windows of whole 32s. What Rope, unless it turns back, and QKNormRope give so is read by Attention and its
// gradient with keys and values of BF16 alone: its queries are multiplied by Attn.Factor before they are rounded.
type RowRounder interface {
	// RoundedLen is how many numbers T of them of that width take; 0 where there are none of the width.
	RoundedLen(width, T int) int
}

// RoundsRows gives the backend as a RowRounder, or nil where it is none in that order.
func RoundsRows(b Backend, o Order) RowRounder {
	if r, ok := inside(b).(RowRounder); ok && o == Tiles {
		return r
	}
	return nil
}

// roundedLen is RoundedLen, and 0 of a backend that has no such rows.
func roundedLen(b Backend, width, T int) int {
	if r := RoundsRows(b, Tiles); r != nil {
		return r.RoundedLen(width, T)
	}
	return 0
}

// made checks T rows that may be rounded, as an operation makes them.
func (k *checked) made(c checker, name string, out Buffer, width, T int) {
	if out != nil && out.DType() == BF16 && roundedLen(k.b, width, 1) > 0 {
		c.buffer(name, out, BF16, roundedLen(k.b, width, T))
		return
	}
	c.f32(name, out, T*width)
}

// multiplied checks n columns of T rows that may be rounded.
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
