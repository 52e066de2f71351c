package cpu

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// The bits of attention, of row operations and of the optimizer are the same on every machine with fused
// multiply-adds, as those of products are. A change of these fingerprints changes all numbers.
func TestTheSameRowsOnEveryMachine(t *testing.T) {
	want := map[string]uint64{
		"Adam":            0x47d4dee4de0a3513,
		"Attention":       0x4f911d815d0af804,
		"AttentionGrad":   0x2474435ee73ceb6f,
		"QKNormRope":      0x5653576c50323834,
		"QKNormRopeGradW": 0xf2505430df835bce,
		"QKNormRopeGradX": 0x8b135f76a222d810,
		"RMSNorm":         0x548abdf91051c8d,
		"RMSNormGradW":    0x49bad0c723aa6d76,
		"RMSNormGradX":    0x9de117e885552edc,
		"SwiGLU":          0xb7394e5e30732d64,
		"SwiGLUGrad":      0x89f0d043066b8192,
	}
	for _, name := range Variants() {
		if name == "portable" && runtime.GOARCH == "amd64" {
			continue // it has no fused multiply-adds
		}
		for op, got := range fingerprints(t, open(t, Options{Threads: 2, Variant: name})) {
			if got != want[op] {
				t.Errorf("%s: the fingerprint of %s is %#x, expected %#x", name, op, got, want[op])
			}
		}
		const inTiles = 0xf46f40ea05005ff4
		if got := attentionInTiles(t, open(t, Options{Threads: 2, Variant: name, Order: kernels.Tiles})); got != inTiles {
			t.Errorf("%s: the fingerprint of attention in tiles is %#x, expected %#x", name, got, uint64(inTiles))
		}
		const products = 0x95a03bdeaf90c0f
		if got := productsInTiles(t, open(t, Options{Threads: 2, Variant: name, Order: kernels.Tiles})); got != products {
			t.Errorf("%s: the fingerprint of products in tiles is %#x, expected %#x", name, got, uint64(products))
		}
		for o, want := range map[kernels.LinearOpt]uint64{{Alpha: 1}: 0x159102fc7c0655c8, {Alpha: 0.3, Accumulate: true}: 0xc4774eeab979d7c8} {
			if got := integerFingerprint(t, open(t, Options{Threads: 2, Variant: name}), o); got != want {
				t.Errorf("%s: the fingerprint of products in whole numbers, %+v, is %#x, expected %#x", name, o, got, want)
			}
		}
	}
}

// integerFingerprint is the fingerprint of products with weights of four bits in integers, of one row and of several.
func integerFingerprint(t *testing.T, m kernels.Backend, o kernels.LinearOpt) uint64 {
	const rows, cols, T = 75, 1088, 29
	random := lcg(9)
	q := kernels.Quantised{Rows: rows, Cols: cols, Block: 64, Codes: make([]byte, rows*cols/2)}
	copy(q.Values[:], random.draw(16, func(bits float32) float32 { return bits*0x1p-23 - 1 }))
	q.Scales = random.draw(rows*cols/64, func(bits float32) float32 { return bits * 0x1p-27 })
	for i, x := range random.draw(len(q.Codes), func(bits float32) float32 { return bits * 0x1p-16 }) {
		q.Codes[i] = byte(x)
	}
	w, err := kernels.NewQuantised(m, kernels.I16Rounding, q)
	if err != nil {
		t.Fatal(err)
	}
	x := upload(t, m, random.draw(T*cols, func(bits float32) float32 { return bits*0x1p-22 - 2 }))
	hash := fnv.New64a()
	for _, n := range []int{1, T} {
		out := upload(t, m, slices.Repeat([]float32{0.7}, n*rows))
		m.Linear(kernels.Whole(out, rows), kernels.Whole(x, cols), w, o, n)
		hash.Write(bytesOf(download(t, m, out)))
	}
	return hash.Sum64()
}

// productsInTiles is the fingerprint of products with a matrix of few rows and with one of few columns, and of their gradients, which are
// accumulated with a factor for which a fused multiply-add rounds differently than a product and a sum.
func productsInTiles(t *testing.T, m kernels.Backend) uint64 {
	const T = 1031
	random := lcg(10)
	in := func(n int) kernels.Buffer {
		return upload(t, m, random.draw(n, func(bits float32) float32 { return bits*0x1p-22 - 2 }))
	}
	hash := fnv.New64a()
	for _, s := range []struct{ n, k int }{{9, 75}, {75, 9}} {
		w, err := m.NewMatrix(kernels.BF16Rounding, s.n, s.k)
		if err != nil {
			t.Fatal(err)
		}
		dw, x, y := in(s.n*s.k), in(T*s.k), in(T*s.n)
		m.Pack(w, 0, dw)
		o := kernels.LinearOpt{Alpha: 0.3, Accumulate: true}
		m.LinearGradW(dw, kernels.Whole(y, s.n), kernels.Whole(x, s.k), o.Alpha, kernels.BF16, T)
		m.Linear(kernels.Whole(y, s.n), kernels.Whole(x, s.k), w, o, T)
		m.LinearGradX(kernels.Whole(x, s.k), kernels.Whole(y, s.n), w, o, T)
		for _, out := range []kernels.Buffer{dw, x, y} {
			hash.Write(bytesOf(download(t, m, out)))
		}
	}
	return hash.Sum64()
}

// attentionInTiles is the fingerprint of attention over keys and values in bf16, in the order of tiles.
func attentionInTiles(t *testing.T, m kernels.Backend) uint64 {
	const T = 107
	h := kernels.Heads{Q: 6, KV: 2, Dim: 40}
	random := lcg(8)
	in := func(n int) kernels.Buffer {
		return upload(t, m, random.draw(n, func(bits float32) float32 { return bits*0x1p-22 - 2 }))
	}
	starts, err := m.Alloc(kernels.I32, 3)
	if err != nil {
		t.Fatal(err)
	}
	m.Upload(starts, []int32{0, 5, T})
	s := kernels.Spans{Starts: starts, N: 2}
	qkv, dout, mean, lse, dqkv := in(T*h.Width()), in(T*h.OutWidth()), in(T*h.OutWidth()), in(T*h.Q), in(T*h.Width())
	m.Attention(mean, lse, qkv, s, kernels.Attn{Heads: h}, kernels.BF16, T)
	m.AttentionGrad(dqkv, dout, qkv, mean, lse, s, kernels.Attn{Heads: h}, kernels.BF16, T)
	hash := fnv.New64a()
	for _, b := range []kernels.Buffer{mean, lse, dqkv} {
		hash.Write(bytesOf(download(t, m, b)))
	}
	return hash.Sum64()
}

// fingerprints runs each operation on numbers from a generator of its own, and hashes what it writes.
func fingerprints(t *testing.T, m kernels.Backend) map[string]uint64 {
	const T, H, N = 75, 100, 60
	const eps = 1e-6
	h := kernels.Heads{Q: 4, KV: 2, Dim: 40}
	random := lcg(7)
	from := func(low float32, n int) kernels.Buffer { // in [low, low+4)
		return upload(t, m, random.draw(n, func(bits float32) float32 { return bits*0x1p-22 + low }))
	}
	in := func(n int) kernels.Buffer { return from(-2, n) }
	sums := map[string]uint64{}
	note := func(op string, outs ...kernels.Buffer) {
		hash := fnv.New64a()
		for _, b := range outs {
			hash.Write(bytesOf(download(t, m, b)))
		}
		sums[op] = hash.Sum64()
	}
	x, y, w, z := in(T*H), in(T*H), in(H), in(T*H)
	m.RMSNorm(z, x, w, kernels.Norm{Eps: eps}, H, T)
	note("RMSNorm", z)
	m.RMSNormGradX(z, y, x, w, kernels.Norm{Eps: eps}, H, T)
	note("RMSNormGradX", z)
	m.RMSNormGradW(w, y, x, kernels.Norm{Eps: eps}, H, T)
	note("RMSNormGradW", w)

	qkv, dout, rope, qw, kw, out := in(T*h.Width()), in(T*h.Width()), in(T*h.Dim), in(h.Dim), in(h.Dim), in(T*h.Width())
	m.QKNormRope(out, qkv, qw, kw, rope, eps, kernels.Attn{Heads: h}, T)
	note("QKNormRope", out)
	m.QKNormRopeGradX(out, dout, qkv, qw, kw, rope, eps, h, T)
	note("QKNormRopeGradX", out)
	m.QKNormRopeGradW(qw, kw, dout, qkv, rope, eps, h, T)
	note("QKNormRopeGradW", qw, kw)

	gateUp, mlp, dGateUp := in(T*2*N), in(T*N), in(T*2*N)
	m.SwiGLUGrad(dGateUp, mlp, gateUp, N, T)
	note("SwiGLUGrad", dGateUp)
	m.SwiGLU(mlp, gateUp, N, T)
	note("SwiGLU", mlp)

	starts, err := m.Alloc(kernels.I32, 3)
	if err != nil {
		t.Fatal(err)
	}
	m.Upload(starts, []int32{0, 5, T})
	s := kernels.Spans{Starts: starts, N: 2}
	mean, lse := in(T*h.OutWidth()), in(T*h.Q)
	m.Attention(mean, lse, qkv, s, kernels.Attn{Heads: h}, kernels.F32, T)
	note("Attention", mean, lse)
	m.AttentionGrad(out, dout, qkv, mean, lse, s, kernels.Attn{Heads: h}, kernels.F32, T)
	note("AttentionGrad", out)

	g, v := in(T*H), from(0, T*H)
	m.Adam(x, y, v, g, kernels.AdamStep{LR: 0.01, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1, GradScale: 0.5,
		Correction1: 0.1, Correction2: 0.05}, T*H)
	note("Adam", x, y, v)
	return sums
}

// lcg is a linear congruential generator: its numbers do not depend on a library.
type lcg uint32

// draw maps the upper 24 bits of n states to numbers.
func (g *lcg) draw(n int, number func(bits float32) float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		*g = *g*1664525 + 1013904223
		x[i] = number(float32(*g >> 8))
	}
	return x
}

func bytesOf(x []float32) (b []byte) {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}
