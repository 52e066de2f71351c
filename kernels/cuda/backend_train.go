//go:build gpu

package cuda

import "github.com/seed-7879b91d/grpo/kernels"

// Loss computes the gradient of the objective and its statistics.
func (b *Backend) Loss(dlogp, stats kernels.Buffer, in kernels.LossIn, l kernels.Loss, T int) {
	b.launch("loss", dims{X: 1}, at(dlogp), at(stats), at(in.LogP), at(in.Entropy), at(in.OldLogP), at(in.Advantage), at(in.Weight),
		i64(int(l.Kind)), f32(l.Low), f32(l.High), i64(T))
}

// squaresChunk is the number of elements per block of sum_squares.cu.
const squaresChunk = 8192

// SumSquares sums squares in double precision.
func (b *Backend) SumSquares(out, x kernels.Buffer, n int) {
	chunks := blocks(n, squaresChunk)
	if chunks.X == 0 {
		b.Zero(own(out).Slice(0, 1))
		return
	}
	sums, ok := b.scratchFor(8 * chunks.X)
	if !ok {
		return
	}
	b.launch("sum_squares", chunks, address(sums), at(x), i64(n))
	b.launch("sum_of_sums", dims{X: 1}, at(out), address(sums), i64(chunks.X))
}

// Adam is one step of the optimizer.
func (b *Backend) Adam(p, m, v, g kernels.Buffer, a kernels.AdamStep, n int) {
	b.launch("adam", gridOfFours(n), at(p), at(m), at(v), at(g), f32(a.LR), f32(a.Beta1), f32(a.Beta2), f32(a.Eps),
		f32(a.LR*a.WeightDecay), f32(a.GradScale), f32(a.Correction1), f32(a.Correction2), i64(n))
}
