package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// A sequence of 512 rows with the heads of a small model, one of 2048, and 16 short sequences. Flops
// are those of the causal half.
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
		m := open(b, Options{})
		T := c.n * c.rows
		starts := make([]int32, c.n+1)
		for i := range starts {
			starts[i] = int32(i * c.rows)
		}
		at, err := m.Alloc(kernels.I32, c.n+1)
		if err != nil {
			b.Fatal(err)
		}
		m.Upload(at, starts)
		s := kernels.Spans{Starts: at, N: c.n}
		qkv, dqkv := random(b, m, T*c.h.Width()), random(b, m, T*c.h.Width())
		out, dout, lse := random(b, m, T*c.h.OutWidth()), random(b, m, T*c.h.OutWidth()), random(b, m, T*c.h.Q)
		forward := 4 * float64(c.rows) * float64(c.rows+1) / 2 * float64(c.n*c.h.OutWidth())
		name := fmt.Sprintf("%dx%d/heads=%d,%d,%d", c.n, c.rows, c.h.Q, c.h.KV, c.h.Dim)
		b.Run("forward/"+name, func(b *testing.B) {
			rate(b, forward/1e9, "GFLOP/s", func() { m.Attention(out, lse, qkv, s, c.h, T) })
		})
		b.Run("gradient/"+name, func(b *testing.B) {
			rate(b, 2.5*forward/1e9, "GFLOP/s", func() { m.AttentionGrad(dqkv, dout, qkv, out, lse, s, c.h, T) })
		})
	}
}

// random is a buffer of n numbers around zero.
func random(b *testing.B, m *Backend, n int) kernels.Buffer {
	return upload(b, m, normal(rand.New(rand.NewPCG(1, uint64(n))), n))
}

// rate runs op and reports how much of a unit it does in a second; nothing may be allocated.
func rate(b *testing.B, amount float64, unit string, op func()) {
	op() // scratch space grows once
	b.ReportAllocs()
	for b.Loop() {
		op()
	}
	b.ReportMetric(amount*float64(b.N)/b.Elapsed().Seconds(), unit)
}
