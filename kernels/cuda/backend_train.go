//go:build gpu

package cuda

import "github.com/seed-7879b91d/grpo/kernels"

// Loss is the objective and its statistics.
func (b *Backend) Loss(dlogp, stats kernels.Buffer, in kernels.LossIn, l kernels.Loss, T int) {
	b.launch("loss", Dim{X: 1}, at(dlogp), at(stats), at(in.LogP), at(in.Entropy), at(in.OldLogP), at(in.Advantage), at(in.Weight),
		Int(int(l.Kind)), Float(l.Low), Float(l.High), Int(T))
}

// squaresChunk is how many numbers a block of sum_squares.cu has.
const squaresChunk = 8192

// SumSquares adds squares up in double precision.
func (b *Backend) SumSquares(out, x kernels.Buffer, n int) {
	chunks := blocks(n, squaresChunk)
	if chunks.X == 0 {
		b.Zero(own(out).Slice(0, 1))
		return
	}
	sums, ok := b.between(8 * chunks.X)
	if !ok {
		return
	}
	b.launch("sum_squares", chunks, Address(sums), at(x), Int(n))
	b.launch("sum_of_sums", Dim{X: 1}, at(out), Address(sums), Int(chunks.X))
}

// Adam is a step of the optimizer.
func (b *Backend) Adam(p, m, v, g kernels.Buffer, a kernels.AdamStep, n int) {
	b.launch("adam", fours(n), at(p), at(m), at(v), at(g), Float(a.LR), Float(a.Beta1), Float(a.Beta2), Float(a.Eps),
		Float(a.LR*a.WeightDecay), Float(a.GradScale), Float(a.Correction1), Float(a.Correction2), Int(n))
}
