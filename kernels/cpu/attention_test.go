package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// attentionOps are attention and its gradient over n sequences of so many rows, with the flops of the
// causal half.
func attentionOps(t testing.TB, m kernels.Backend, h kernels.Heads, n, rows int) (forward, gradient func(), flops float64) {
	T := n * rows
	starts := make([]int32, n+1)
	for i := range starts {
		starts[i] = int32(i * rows)
	}
	at, err := m.Alloc(kernels.I32, n+1)
	if err != nil {
		t.Fatal(err)
	}
	m.Upload(at, starts)
	s := kernels.Spans{Starts: at, N: n}
	qkv, dqkv := random(t, m, T*h.Width()), random(t, m, T*h.Width())
	out, dout, lse := random(t, m, T*h.OutWidth()), random(t, m, T*h.OutWidth()), random(t, m, T*h.Q)
	return func() { m.Attention(out, lse, qkv, s, h, kernels.F32, T) },
		func() { m.AttentionGrad(dqkv, dout, qkv, out, lse, s, h, kernels.F32, T) },
		4 * float64(rows) * float64(rows+1) / 2 * float64(n*h.OutWidth())
}

func BenchmarkAttention(b *testing.B) {
	for _, c := range []struct {
		h       kernels.Heads
		n, rows int
	}{
		{kernels.Heads{Q: 16, KV: 8, Dim: 128}, 1, 512},
		{kernels.Heads{Q: 16, KV: 8, Dim: 128}, 1, 2048},
		{kernels.Heads{Q: 16, KV: 8, Dim: 128}, 16, 32},
		{kernels.Heads{Q: 16, KV: 8, Dim: 64}, 2, 256},
	} {
		forward, gradient, flops := attentionOps(b, open(b, Options{}), c.h, c.n, c.rows)
		name := fmt.Sprintf("%dx%d/heads=%d,%d,%d", c.n, c.rows, c.h.Q, c.h.KV, c.h.Dim)
		b.Run("forward/"+name, func(b *testing.B) { rate(b, flops/1e9, "GFLOP/s", forward) })
		b.Run("gradient/"+name, func(b *testing.B) { rate(b, 2.5*flops/1e9, "GFLOP/s", gradient) })
	}
}

// random is a buffer of n numbers around zero.
func random(t testing.TB, m kernels.Backend, n int) kernels.Buffer {
	return upload(t, m, normal(rand.New(rand.NewPCG(1, uint64(n))), n))
}

// rate runs op and reports how much of a unit it does in a second, and what it allocates.
func rate(b *testing.B, amount float64, unit string, op func()) {
	op() // scratch space grows once
	b.ReportAllocs()
	for b.Loop() {
		op()
	}
	b.ReportMetric(amount*float64(b.N)/b.Elapsed().Seconds(), unit)
}
