package oracle

import "github.com/seed-7879b91d/grpo/kernels"

// LinearLowRank leaves it to the products, one after the other.
func (reference) LinearLowRank(_, _, _ kernels.Cols, _ kernels.Matrix, _ kernels.Buffer, _ *kernels.LowRank, _ int) bool {
	return false
}

// LinearLowRankGradX rounds both products, and then adds them.
func (r reference) LinearLowRankGradX(dx, dz, dy kernels.Cols, w kernels.Matrix, l *kernels.LowRank, T int) bool {
	kernels.LowRankGradZ(r, dz, dy, l, T)
	r.LinearGradX(dx, dy, w, kernels.LinearOpt{Alpha: 1}, T)
	added := kernels.Whole(newBuffer[float32](T*dx.N), dx.N)
	r.LinearGradX(added, dz, l.A, kernels.LinearOpt{Alpha: l.Scale}, T)
	for t := range T {
		to := window(dx, t)
		for i, x := range window(added, t) {
			to[i] += x
		}
	}
	return true
}
