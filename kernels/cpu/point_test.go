package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// rowOp is an operation over 512 rows of a small model.
type rowOp struct {
	name    string
	numbers int // read or written
	run     func()
}

func rowOps(t testing.TB, m kernels.Backend) []rowOp {
	const T, H, N = 512, 1024, 3072
	h := kernels.Heads{Q: 16, KV: 8, Dim: 128}
	a := kernels.Attn{Heads: h}
	buffer := func(n int) kernels.Buffer { return random(t, m, n) }
	x, y, w, dw := buffer(T*H), buffer(T*H), buffer(H), buffer(H)
	qkv, rotated, rope, qw, kw := buffer(T*h.Width()), buffer(T*h.Width()), buffer(T*h.Dim), buffer(h.Dim), buffer(h.Dim)
	dqkv, dqw, dkw := buffer(T*h.Width()), buffer(h.Dim), buffer(h.Dim)
	gateUp, dGateUp, mlp := buffer(T*2*N), buffer(T*2*N), buffer(T*N)
	z := buffer(T * H)
	ids, err := m.Alloc(kernels.I32, T)
	if err != nil {
		t.Fatal(err)
	}
	table, err := m.NewMatrix(kernels.BF16, 1000, H)
	if err != nil {
		t.Fatal(err)
	}
	dTable := buffer(1000 * H)
	frequencies, err := m.Alloc(kernels.F64, h.Dim/2)
	if err != nil {
		t.Fatal(err)
	}
	return []rowOp{
		{"Embed", T * H * 3 / 2, func() { m.Embed(y, table, ids, T) }},
		{"EmbedGrad", T * H * 3, func() { m.EmbedGrad(dTable, y, ids, 1000, H, T) }},
		{"RMSNorm", T * H * 2, func() { m.RMSNorm(y, x, w, kernels.Norm{Eps: 1e-6}, H, T) }},
		{"RMSNormGradX", T * H * 3, func() { m.RMSNormGradX(z, y, x, w, kernels.Norm{Eps: 1e-6}, H, T) }},
		{"RMSNormGradW", T * H * 3, func() { m.RMSNormGradW(dw, y, x, kernels.Norm{Eps: 1e-6}, H, T) }},
		{"RopeTable", T * h.Dim, func() { m.RopeTable(rope, ids, frequencies, 1, h.Dim, T) }},
		{"QKNormRope", T * h.Width() * 2, func() { m.QKNormRope(rotated, qkv, qw, kw, rope, 1e-6, a, T) }},
		{"QKNormRopeGradX", T * h.Width() * 3, func() { m.QKNormRopeGradX(dqkv, rotated, qkv, qw, kw, rope, 1e-6, h, T) }},
		{"QKNormRopeGradW", T * (h.Q + h.KV) * h.Dim * 3, func() { m.QKNormRopeGradW(dqw, dkw, rotated, qkv, rope, 1e-6, h, T) }},
		{"Rope", T * h.Width() * 2, func() { m.Rope(rotated, qkv, rope, false, a, T) }},
		{"GeGLU", T * N * 3, func() { m.GeGLU(mlp, gateUp, N, T) }},
		{"GeGLUGrad", T * N * 5, func() { m.GeGLUGrad(dGateUp, mlp, gateUp, N, T) }},
		{"Scale", T * H * 2, func() { m.Scale(z, x, 2, T*H) }},
		{"SwiGLU", T * N * 3, func() { m.SwiGLU(mlp, gateUp, N, T) }},
		{"SwiGLUGrad", T * N * 5, func() { m.SwiGLUGrad(dGateUp, mlp, gateUp, N, T) }},
		{"Add", T * H * 3, func() { m.Add(z, x, y, T*H) }},
	}
}

func BenchmarkRows(b *testing.B) { benchmarkRows(b, rowOps(b, open(b, Options{}))) }

func benchmarkRows(b *testing.B, ops []rowOp) {
	for _, op := range ops {
		b.Run(op.name, func(b *testing.B) { rate(b, 4*float64(op.numbers)/1e9, "GB/s", op.run) })
	}
}

func TestNothingIsAllocated(t *testing.T) {
	m := open(t, Options{})
	forward, gradient, _ := attentionOps(t, m, kernels.Heads{Q: 4, KV: 2, Dim: 64}, 3, 50)
	ops := append(rowOps(t, m), trainOps(t, m, 20000)...)
	ops = append(ops, rowOp{"Attention", 0, forward}, rowOp{"AttentionGrad", 0, gradient})
	for _, op := range ops {
		n := testing.AllocsPerRun(3, op.run)
		for range 5 { // Go itself allocates now and then, when a worker goes to sleep
			n = min(n, testing.AllocsPerRun(3, op.run))
		}
		if n != 0 {
			t.Errorf("%s allocates %v times", op.name, n)
		}
	}
}

// Rows that are written around the caches have the same bits, also if they are not a whole number of vectors.
func TestRowsAroundTheCaches(t *testing.T) {
	defer func(usual int) { streamedBytes = usual }(streamedBytes)
	const T = 40
	for _, name := range Variants() {
		for _, order := range []kernels.Order{kernels.Serial, kernels.Tiles} {
			m := open(t, Options{Threads: 2, Variant: name, Order: order})
			for _, dim := range []int{6, 24, 64} {
				h := kernels.Heads{Q: 3, KV: 1, Dim: dim}
				a := kernels.Attn{Heads: h}
				rng := rand.New(rand.NewPCG(3, uint64(dim)))
				qkv, rope := upload(t, m, normal(rng, T*h.Width())), upload(t, m, normal(rng, T*h.Dim))
				qw, kw := upload(t, m, normal(rng, h.Dim)), upload(t, m, normal(rng, h.Dim))
				starts, err := m.Alloc(kernels.I32, 2)
				if err != nil {
					t.Fatal(err)
				}
				m.Upload(starts, []int32{0, T})
				rows := func(bytes int) (all []float32) {
					streamedBytes = bytes
					rotated, normed, lse := random(t, m, T*h.Width()), random(t, m, T*h.Width()), random(t, m, T*h.Q)
					m.Rope(rotated, qkv, rope, false, a, T)
					m.QKNormRope(normed, qkv, qw, kw, rope, 1e-6, a, T)
					all = slices.Concat(download(t, m, rotated), download(t, m, normed))
					for _, kv := range []kernels.DType{kernels.F32, kernels.BF16} {
						out := random(t, m, T*h.OutWidth())
						m.Attention(out, lse, qkv, kernels.Spans{Starts: starts, N: 1}, kernels.Attn{Heads: h}, kv, T)
						all = append(all, download(t, m, out)...)
					}
					return all
				}
				if usual := rows(1 << 30); !slices.Equal(usual, rows(0)) {
					t.Errorf("%s, %v, heads of %d: rows around the caches are others", name, order, dim)
				}
			}
		}
	}
}
