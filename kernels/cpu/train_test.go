package cpu

import (
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// trainOps are the optimizer over n parameters and the loss over as many rows.
func trainOps(t testing.TB, m kernels.Backend, n int) []rowOp {
	p, mean, square, g := random(t, m, n), random(t, m, n), random(t, m, n), random(t, m, n)
	out, err := m.Alloc(kernels.F64, kernels.NumStats)
	if err != nil {
		t.Fatal(err)
	}
	step := kernels.AdamStep{LR: 1e-5, Beta1: 0.9, Beta2: 0.95, Eps: 1e-12, GradScale: 1, Correction1: 1, Correction2: 1}
	rows, ppo := kernels.LossIn{LogP: p, Entropy: p, OldLogP: mean, Advantage: g, Weight: g}, kernels.Loss{Kind: kernels.PPO}
	return []rowOp{
		{"SumSquares", n, func() { m.SumSquares(out, g, n) }},
		{"Adam", 7 * n, func() { m.Adam(p, mean, square, g, step, n) }},
		{"Loss", 6 * 4096, func() { m.Loss(square, out, rows, ppo, 4096) }},
	}
}

// The number of parameters of a small model's adapter.
func BenchmarkTrain(b *testing.B) { benchmarkRows(b, trainOps(b, open(b, Options{}), 10<<20)) }
