//go:build gpu

package conformance

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

// testBackend is a backend with helpers that upload operands and fail the test.
type testBackend struct {
	kernels.Backend
	t *testing.T
}

func (tb testBackend) of(x any) kernels.Buffer {
	types := map[string]kernels.DType{"[]float32": kernels.F32, "[]float64": kernels.F64, "[]int32": kernels.I32}
	n := 0
	switch x := x.(type) {
	case []float32:
		n = len(x)
	case []float64:
		n = len(x)
	case []int32:
		n = len(x)
	}
	b, err := tb.Alloc(types[fmt.Sprintf("%T", x)], n)
	require.NoError(tb.t, err)
	tb.Upload(b, x)
	return b
}

func (tb testBackend) matrix(t kernels.DType, rows, cols int, x []float32) kernels.Matrix {
	w, err := tb.NewMatrix(t, rows, cols)
	require.NoError(tb.t, err)
	encoding, bytes := kernels.EncodedF32, []byte{}
	for _, x := range x {
		if t == kernels.F32 {
			bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(x))
		} else {
			encoding, bytes = kernels.EncodedBF16, binary.LittleEndian.AppendUint16(bytes, uint16(math.Float32bits(x)>>16))
		}
	}
	tb.Load(w, 0, kernels.HostRows{Encoding: encoding, Bytes: bytes})
	return w
}

// normals are n random numbers with that standard deviation.
func normals(r *rand.Rand, n int, size float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(size * r.NormFloat64())
	}
	return x
}

// scored are the results of LogProb and its gradients, by name.
type scored map[string][]float32

// score runs all operations of the head over rows, or with noGrad only those without a gradient.
func (tb testBackend) score(w kernels.Matrix, h []float32, targets []int32, f kernels.Logits, noGrad bool) scored {
	T, H := len(targets), w.Cols()
	zeros := func(n int) kernels.Buffer { return tb.of(slices.Repeat([]float32{float32(math.NaN())}, n)) }
	x, ids := tb.of(h), tb.of(targets)
	outs := map[string]kernels.Buffer{"LogP": zeros(T), "Entropy": zeros(T), "LSE": zeros(T)}
	out := kernels.LogProbOut{LogP: outs["LogP"], Entropy: outs["Entropy"], LSE: outs["LSE"]}
	if !noGrad {
		outs["Jacobian"], outs["LogProbGradX"] = zeros(T*H), zeros(T*H)
		outs["LogProbGradW"] = tb.of(make([]float32, w.Rows()*H))
		out.Jacobian = outs["Jacobian"]
	}
	tb.LogProb(out, x, w, ids, f, T)
	if !noGrad {
		dlogp := tb.of(normals(rand.New(rand.NewPCG(8, 8)), T, 1))
		tb.LogProbGradX(outs["LogProbGradX"], dlogp, out.Jacobian, H, T)
		tb.LogProbGradW(outs["LogProbGradW"], dlogp, x, w, ids, out.LSE, f, T)
	}
	all := scored{}
	for name, b := range outs {
		all[name] = numbers(tb.t, tb, b)
	}
	return all
}

// relativeError is the largest error, relative to the root mean square of want, or to 1 if that is less.
func relativeError(want, got []float32) (worst float64) {
	var squares float64
	for i := range want {
		squares += float64(want[i]) * float64(want[i])
		if d := math.Abs(float64(want[i]) - float64(got[i])); !(d <= worst) {
			worst = d
		}
	}
	return worst / max(1, math.Sqrt(squares/float64(max(1, len(want)))))
}

var weightTypes = []kernels.DType{kernels.BF16, kernels.BF16Rounding, kernels.F32}

// A vocabulary of several chunks, and rows in several rounds, against the oracle, which computes in double precision.
func TestHeadOfManyChunks(t *testing.T) {
	card, reference := testBackend{opened(t)(), t}, testBackend{kerneltest.NewReference(), t}
	defer func() { require.NoError(t, card.Close()) }()
	for _, s := range []struct {
		T, V, H int
		spread  float64 // of the logits
	}{{7, 2*4096 + 77, 72, 6}, {3, 4096, 16, 30}, {2060, 5, 3, 2}} {
		for i, dtype := range weightTypes {
			f := kernels.Logits{InvTemp: 0.7, Cap: float32(i % 2 * 30)}
			if s.T > 2048 && dtype != kernels.BF16 {
				continue // rounds do not depend on the type
			}
			r := rand.New(rand.NewPCG(uint64(s.V), 3))
			h, weights := normals(r, s.T*s.H, 1), normals(r, s.V*s.H, s.spread/math.Sqrt(float64(s.H)))
			targets := make([]int32, s.T)
			for i := range targets {
				targets[i] = int32(r.IntN(s.V+s.V/4) - s.V/4)
			}
			targets[0] = int32(s.V - 1)
			want := reference.score(reference.matrix(dtype, s.V, s.H, weights), h, targets, f, false)
			got := card.score(card.matrix(dtype, s.V, s.H, weights), h, targets, f, false)
			for _, name := range []string{"LogP", "Entropy", "LSE", "Jacobian", "LogProbGradX", "LogProbGradW"} {
				within := 1e-5 // logits have magnitudes of some tens in float32
				if dtype == kernels.BF16Rounding && (name == "Jacobian" || name == "LogProbGradX") {
					within = 0x1p-9 // the Jacobian's weights are rounded, too
				}
				worst := relativeError(want[name], got[name])
				t.Logf("%d rows, %d × %d, %-13v %-13s off by %.1e at most", s.T, s.V, s.H, dtype, name, worst)
				require.LessOrEqual(t, worst, within, "%v, %s", dtype, name)
			}
		}
	}
}

// A row has the bits that it has alone, whatever the other rows, with a gradient and without.
func TestScoredRowsAlone(t *testing.T) {
	card := testBackend{opened(t)(), t}
	defer func() { require.NoError(t, card.Close()) }()
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 40 {
		f := kernels.Logits{InvTemp: 0.9, Cap: float32(i % 3)}
		T, V, H := 1+r.IntN(40), 1+r.IntN(300), 1+r.IntN(50)
		if r.IntN(8) == 0 {
			V += 4096
		}
		w := card.matrix(weightTypes[r.IntN(3)], V, H, normals(r, V*H, 1))
		h, targets := normals(r, T*H, 1), make([]int32, T)
		for i := range targets {
			targets[i] = int32(r.IntN(V+V/3) - V/3)
		}
		batch := card.score(w, h, targets, f, false)
		for range 5 {
			row := r.IntN(T)
			alone := card.score(w, h[row*H:(row+1)*H], targets[row:row+1], f, r.IntN(2) == 0)
			for name, x := range alone {
				if name == "LogProbGradX" || name == "LogProbGradW" {
					continue // these depend on other rows, or on dlogp alone
				}
				width := len(x)
				require.Equal(t, batch[name][row*width:(row+1)*width], x, "%s of row %d of %d, %d × %d", name, row, T, V, H)
			}
		}
	}
}
