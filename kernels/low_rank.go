package kernels

// LowRank is the branch that a LoRA adapter adds to a linear of packed weights (such as q, k and v): z = Scale · x · Aᵀ, and to
// each window of the output the window's columns of z times its Bᵀ. A has the rows of all windows, one after the other.
type LowRank struct {
	Scale   float32
	Windows []Window
	A       Matrix
	B       []Matrix // of each window
}

// Window is columns [From, From+N).
type Window struct{ From, N int }

// Of is the window in a buffer of rows of that width.
func (w Window) Of(b Buffer, width int) Cols {
	return Cols{Buf: b, Stride: width, From: w.From, N: w.N}
}

// rank is the number of columns of z that each window has.
func (l *LowRank) rank() int { return l.A.Rows() / len(l.B) }

// Between is the columns of z that belong to window i.
func (l *LowRank) Between(z Cols, i int) Cols {
	z.From, z.N = z.From+i*l.rank(), l.rank()
	return z
}

// window is the columns of the output that belong to window i.
func (l *LowRank) window(y Cols, i int) Cols {
	y.From, y.N = y.From+l.Windows[i].From, l.Windows[i].N
	return y
}

// LowRanker is a backend that may fuse the products of such a linear, to the same bits as one after the other.
type LowRanker interface {
	// LinearLowRank does what the function of that name does, and LinearLowRankGradX likewise, or returns false and does nothing.
	LinearLowRank(out, z, x Cols, w Matrix, bias Buffer, l *LowRank, T int) bool
	LinearLowRankGradX(dx, dz, dy Cols, w Matrix, l *LowRank, T int) bool
}

// LinearLowRank: z [T, A's rows] = Scale · x · Aᵀ, out [T, N] = x [T, K] · wᵀ + bias, and to each window of out is added z · Bᵀ.
func LinearLowRank(b Backend, out, z, x Cols, w Matrix, bias Buffer, l *LowRank, T int) {
	c := begin(b, "LinearLowRank")
	c.size("T", T, 0)
	c.matrix("w", w)
	c.cols("out", out, w.Rows(), T)
	c.multiplied(b, "x", x, w.Cols(), T)
	c.lowRank(l, z, w, T)
	if bias != nil {
		c.f32("bias", bias, w.Rows())
	}
	if k, ok := unwrap(b).(LowRanker); ok && k.LinearLowRank(out, z, x, w, bias, l, T) {
		return
	}
	b.Linear(out, x, w, LinearOpt{Alpha: 1, Bias: bias}, T)
	AddLowRank(b, out, z, x, l, T)
}

// AddLowRank adds an adapter's branch to rows of a linear's output.
func AddLowRank(b Backend, out, z, x Cols, l *LowRank, T int) {
	b.Linear(z, x, l.A, LinearOpt{Alpha: l.Scale}, T)
	for i, m := range l.B {
		b.Linear(l.window(out, i), l.Between(z, i), m, LinearOpt{Alpha: 1, Accumulate: true}, T)
	}
}

// LinearLowRankGradX: dz [T, A's rows] = in each window dy · B, dx [T, K] = dy [T, N] · w + Scale · dz · A, where the second product is
// rounded before it is added.
func LinearLowRankGradX(b Backend, dx, dz, dy Cols, w Matrix, l *LowRank, T int) {
	c := begin(b, "LinearLowRankGradX")
	c.size("T", T, 0)
	c.matrix("w", w)
	c.multiplied(b, "dy", dy, w.Rows(), T)
	c.cols("dx", dx, w.Cols(), T)
	c.lowRank(l, dz, w, T)
	if k, ok := unwrap(b).(LowRanker); ok && k.LinearLowRankGradX(dx, dz, dy, w, l, T) {
		return
	}
	LowRankGradZ(b, dz, dy, l, T)
	b.LinearGradX(dx, dz, l.A, LinearOpt{Alpha: l.Scale}, T)
	b.LinearGradX(dx, dy, w, LinearOpt{Alpha: 1, Accumulate: true}, T)
}

// LowRankGradZ is the first part of LinearLowRankGradX: dz.
func LowRankGradZ(b Backend, dz, dy Cols, l *LowRank, T int) {
	for i, m := range l.B {
		b.LinearGradX(l.Between(dz, i), l.window(dy, i), m, LinearOpt{Alpha: 1}, T)
	}
}

// lowRank checks the operands that forward and backward have in common.
func (c checker) lowRank(l *LowRank, z Cols, w Matrix, T int) {
	c.matrix("A", l.A)
	c.cols("z", z, l.A.Rows(), T)
	if n := len(l.B); n == 0 || n != len(l.Windows) || l.A.Rows()%n != 0 || l.A.Cols() != w.Cols() {
		c.fail("A [%d, %d], %d matrices B and %d windows do not fit a linear layer [%d, %d]", l.A.Rows(), l.A.Cols(), n,
			len(l.Windows), w.Rows(), w.Cols())
	}
	for i, at := range l.Windows {
		c.matrix("B", l.B[i])
		if at.From < 0 || at.From+at.N > w.Rows() || l.B[i].Rows() != at.N || l.B[i].Cols() != l.rank() {
			c.fail("B [%d, %d] is for columns [%d, %d) of %d, expected one row for each and %d columns", l.B[i].Rows(), l.B[i].Cols(),
				at.From, at.From+at.N, w.Rows(), l.rank())
		}
	}
}
