//go:build gpu

package conformance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

// memory is the part of a backend, the reference or the card, that holds operands.
type memory interface {
	Alloc(t kernels.DType, n int) (kernels.Buffer, error)
	Upload(dst kernels.Buffer, src any)
	Download(dst any, src kernels.Buffer) error
}

// operands uploads numbers into new allocations, `shift` numbers after their start, so that they are aligned to 16 bytes or not.
type operands struct {
	t     *testing.T
	in    memory
	shift int
}

func (o operands) of(x ...float32) kernels.Buffer {
	b, err := o.in.Alloc(kernels.F32, o.shift+len(x))
	require.NoError(o.t, err)
	b = b.Slice(o.shift, o.shift+len(x))
	o.in.Upload(b, x)
	return b
}

func (o operands) random(seed uint64, n int) kernels.Buffer {
	r := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return o.of(x...)
}

func (o operands) ids(below, n int) kernels.Buffer {
	r := rand.New(rand.NewPCG(uint64(n), 2))
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(r.IntN(below))
	}
	b, err := o.in.Alloc(kernels.I32, n)
	require.NoError(o.t, err)
	o.in.Upload(b, x)
	return b
}

// rows has the operations that are called here.
type rows interface {
	Gather(out, x, rows kernels.Buffer, width, n int)
	RMSNorm(out, x, weight kernels.Buffer, n kernels.Norm, H, T int)
	RMSNormGradX(dx, dy, x, weight kernels.Buffer, n kernels.Norm, H, T int)
	RMSNormGradW(dw, dy, x kernels.Buffer, n kernels.Norm, H, T int)
	BiasGrad(db kernels.Buffer, dy kernels.Cols, T int)
	EmbedGrad(dTable, dOut, ids kernels.Buffer, V, H, T int)
	SwiGLU(out, gateUp kernels.Buffer, N, T int)
	SwiGLUGrad(dGateUp, dout, gateUp kernels.Buffer, N, T int)
	Adam(p, m, v, g kernels.Buffer, a kernels.AdamStep, n int)
}

const (
	wideRows = 5 // except for sums over rows
	eps      = 0.3
)

// wide are operations over rows of H numbers, each with its output.
var wide = map[string]func(r rows, o operands, H int) kernels.Buffer{
	"Gather": func(r rows, o operands, H int) kernels.Buffer {
		out := o.random(1, 9*H)
		r.Gather(out, o.random(2, wideRows*H), o.ids(wideRows, 9), H, 9)
		return out
	},
	"RMSNorm": func(r rows, o operands, H int) kernels.Buffer {
		out := o.random(1, wideRows*H)
		r.RMSNorm(out, o.random(2, wideRows*H), o.random(3, H), kernels.Norm{Eps: eps}, H, wideRows)
		return out
	},
	"RMSNormGradX": func(r rows, o operands, H int) kernels.Buffer {
		out := o.random(1, wideRows*H)
		r.RMSNormGradX(out, o.random(2, wideRows*H), o.random(3, wideRows*H), o.random(4, H), kernels.Norm{Eps: eps}, H, wideRows)
		return out
	},
	"RMSNormGradW": func(r rows, o operands, H int) kernels.Buffer {
		dw := o.random(1, H)
		r.RMSNormGradW(dw, o.random(2, 150*H), o.random(3, 150*H), kernels.Norm{Eps: eps}, H, 150)
		return dw
	},
	"BiasGrad": func(r rows, o operands, H int) kernels.Buffer {
		db := o.random(1, H)
		r.BiasGrad(db, kernels.Whole(o.random(2, 150*H), H), 150)
		return db
	},
	"EmbedGrad": func(r rows, o operands, H int) kernels.Buffer {
		dw := o.random(1, 300*H)
		r.EmbedGrad(dw, o.random(2, 600*H), o.ids(300, 600), 300, H, 600)
		return dw
	},
	"SwiGLU": func(r rows, o operands, H int) kernels.Buffer {
		out := o.random(1, wideRows*H)
		r.SwiGLU(out, o.random(2, wideRows*2*H), H, wideRows)
		return out
	},
	"SwiGLUGrad": func(r rows, o operands, H int) kernels.Buffer {
		out := o.random(1, wideRows*2*H)
		r.SwiGLUGrad(out, o.random(2, wideRows*H), o.random(3, wideRows*2*H), H, wideRows)
		return out
	},
	"Adam": func(r rows, o operands, H int) kernels.Buffer {
		p := o.random(1, H)
		v := o.of(make([]float32, H)...)
		r.Adam(p, o.random(2, H), v, o.random(3, H), kernels.AdamStep{LR: 0.1, Beta1: 0.9, Beta2: 0.95, Eps: 0.01,
			WeightDecay: 0.2, GradScale: 0.7, Correction1: 0.19, Correction2: 0.0975}, H)
		return p
	},
}

// Rows wider than a block, and more rows than a block sums, against the oracle; the bits do not depend on the alignment of operands.
func TestWideRows(t *testing.T) {
	card := opened(t)()
	defer func() { require.NoError(t, card.Close()) }()
	reference := kerneltest.NewReference()
	for name, run := range wide {
		for _, H := range []int{1100, 1501} {
			t.Run(fmt.Sprintf("%s/%d", name, H), func(t *testing.T) {
				want := numbers(t, reference, run(reference, operands{t, reference, 0}, H))
				first := numbers(t, card, run(card, operands{t, card, 0}, H))
				for i := range want {
					require.InDelta(t, want[i], first[i], 1e-5*max(1, math.Abs(float64(want[i]))), "number %d", i)
				}
				for shift := range 4 {
					again := numbers(t, card, run(card, operands{t, card, shift}, H))
					require.Equal(t, first, again, "the same bits, %d numbers further on", shift)
				}
			})
		}
	}
}

func numbers(t *testing.T, m memory, b kernels.Buffer) []float32 {
	t.Helper()
	x := make([]float32, b.Len())
	require.NoError(t, m.Download(x, b))
	return x
}

// ulps is the error of x, in units in the last place of want as a float32.
func ulps(x float32, want float64) float64 {
	_, exponent := math.Frexp(want)
	return math.Abs(float64(x)-want) / math.Ldexp(1, max(exponent, -125)-24)
}

// The largest errors of the kernels' own functions, in place of the library of a toolkit.
func TestOwnFunctions(t *testing.T) {
	card := opened(t)()
	defer func() { require.NoError(t, card.Close()) }()
	o := operands{t, card, 0}

	// silu(g) · 1 for all g for which exp is neither 0 nor infinite.
	const n = 1 << 16
	gateUp := make([]float32, 2*n)
	for i := range n {
		gateUp[i], gateUp[n+i] = float32(i-n/2)*(100.0/(n/2)), 1
	}
	out := o.of(make([]float32, n)...)
	card.SwiGLU(out, o.of(gateUp...), n, 1)
	worst := 0.0
	for i, y := range numbers(t, card, out) {
		g := float64(gateUp[i])
		want := g / (1 + math.Exp(-g))
		if math.Abs(want) < 0x1p-119 { // e to the g is subnormal
			require.InDelta(t, want, y, 0x1p-140)
			continue
		}
		worst = max(worst, ulps(y, want))
	}
	t.Logf("silu is off by %.2f units in the last place", worst)
	require.Less(t, worst, 4.0)

	// Angles up to 2^31: cosine and sine are rounded from double precision.
	positions := []int32{0, 1, 2, 3, 5, 1000, 40000, 1 << 20, 1<<24 + 1, 1<<30 + 7, math.MaxInt32}
	ids, err := card.Alloc(kernels.I32, len(positions))
	require.NoError(t, err)
	card.Upload(ids, positions)
	const dim = 64
	table := o.of(make([]float32, dim*len(positions))...)
	turns := make([]float64, dim/2)
	frequencies, err := card.Alloc(kernels.F64, dim/2)
	require.NoError(t, err)
	for i := range turns {
		turns[i] = math.Pow(1e4, -2*float64(i)/dim)
	}
	card.Upload(frequencies, turns)
	card.RopeTable(table, ids, frequencies, 1, dim, len(positions))
	got := numbers(t, card, table)
	worst = 0
	for p, position := range positions {
		for i := range dim / 2 {
			angle := float64(position) * math.Pow(1e4, -2*float64(i)/dim)
			worst = max(worst, ulps(got[p*dim+i], math.Cos(angle)))
			if position != 0 {
				worst = max(worst, ulps(got[p*dim+dim/2+i], math.Sin(angle)))
			}
		}
	}
	t.Logf("cosine and sine are off by %.3f units in the last place", worst)
	require.Less(t, worst, 0.51)
}

// The rows with one id are added in ascending order, and the sum is added once: the same bits as on the host, for ids of one, two and
// three times 8 bits, some of them frequent.
func TestEmbedGradInOrder(t *testing.T) {
	card := opened(t)()
	defer func() { require.NoError(t, card.Close()) }()
	o := operands{t, card, 0}
	for _, c := range []struct{ V, H, T int }{{1, 3, 40}, {256, 5, 300}, {257, 2, 1000}, {70000, 3, 2500}, {300, 300, 9}} {
		ids := make([]int32, c.T)
		r := rand.New(rand.NewPCG(uint64(c.V), 3))
		for i := range ids {
			ids[i] = int32(r.IntN(c.V))
			if i%3 == 0 {
				ids[i] = int32(max(0, c.V-1-i%2))
			}
		}
		onCard, err := card.Alloc(kernels.I32, c.T)
		require.NoError(t, err)
		card.Upload(onCard, ids)
		dw, dOut := o.random(1, c.V*c.H), o.random(2, c.T*c.H)
		want, rows, sums := numbers(t, card, dw), numbers(t, card, dOut), map[int32][]float32{}
		for i, id := range ids {
			if sums[id] == nil {
				sums[id] = make([]float32, c.H)
			}
			for k := range c.H {
				sums[id][k] += rows[i*c.H+k]
			}
		}
		for id, sum := range sums {
			for k := range c.H {
				want[int(id)*c.H+k] += sum[k]
			}
		}
		card.EmbedGrad(dw, dOut, onCard, c.V, c.H, c.T)
		require.Equal(t, want, numbers(t, card, dw), "%+v", c)
	}
}
