package cpu

import (
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// The optimizer over as many parameters as the adapter of a small model has, in bytes read or written.
func BenchmarkTrain(b *testing.B) {
	const n, T = 10 << 20, 4096
	m := open(b, Options{})
	p, mean, square, g := random(b, m, n), random(b, m, n), random(b, m, n), random(b, m, n)
	out, err := m.Alloc(kernels.F64, kernels.NumStats)
	if err != nil {
		b.Fatal(err)
	}
	step := kernels.AdamStep{LR: 1e-5, Beta1: 0.9, Beta2: 0.95, Eps: 1e-12, GradScale: 1, Correction1: 1, Correction2: 1}
	rows := kernels.LossIn{LogP: p, Entropy: p, OldLogP: mean, Advantage: g, Weight: g}
	b.Run("SumSquares", func(b *testing.B) { rate(b, 4*n/1e9, "GB/s", func() { m.SumSquares(out, g, n) }) })
	b.Run("Adam", func(b *testing.B) { rate(b, 7*4*n/1e9, "GB/s", func() { m.Adam(p, mean, square, g, step, n) }) })
	b.Run("Loss", func(b *testing.B) {
		rate(b, T, "rows/s", func() { m.Loss(p, out, rows, kernels.Loss{Kind: kernels.PPO, Low: 0.8, High: 1.2}, T) })
	})
}
