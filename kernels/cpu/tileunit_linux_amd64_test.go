package cpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu/tileunit"
)

// If the processor has no tile unit, its instructions are emulated, so that the kernels that use them are tested
// everywhere.
var standsIn = tileunit.Use() == nil

// A tile unit is used without being asked for, and gives the bits of multiply-adds, also for products of many depths, panels and
// threads.
func TestTheTileUnit(t *testing.T) {
	if unit := Tiles(); !unit.Native {
		t.Skip(unit.Reason)
	}
	t.Setenv("GRPO_CPU", "")
	b := openBare(t, Options{Order: kernels.Tiles})
	require.True(t, hasTileUnit(b.ops), b.Name())
	require.False(t, hasTileUnit(openBare(t, Options{}).ops))
	T, N, K := 203, 1100, 2060
	if standsIn {
		T, N, K = 43, 550, 1060
	}
	random := rand.New(rand.NewPCG(1, 1))
	x, y, w := normal(random, T*K), normal(random, T*N), normal(random, N*K)
	for _, d := range []kernels.DType{kernels.BF16, kernels.BF16Rounding} {
		out, dx, _ := results(t, Options{Threads: 2, Variant: "avx512", Order: kernels.Tiles}, d, x, y, w, T, N, K)
		for threads := range 4 {
			o := Options{Threads: threads + 1, Variant: "amx", Order: kernels.Tiles}
			gotOut, gotDx, _ := results(t, o, d, x, y, w, T, N, K)
			same(t, fmt.Sprint(d, o, " Linear"), gotOut, out)
			same(t, fmt.Sprint(d, o, " LinearGradX"), gotDx, dx)
		}
	}
	executed, holders := tileunit.Executed()
	require.Equal(t, standsIn, executed > 0)
	require.Zero(t, holders, "a thread left a kernel with its tiles")
}

// Weights of four bits stay valid when the order changes, also if vectors of 32 bytes are the fastest in series.
func TestCodesOutliveAnOrder(t *testing.T) {
	if unit := Tiles(); !unit.Native {
		t.Skip(unit.Reason)
	}
	t.Setenv("GRPO_CPU", "")
	before := fastest
	t.Cleanup(func() { fastest = before })
	fastest = always(variants()[slices.Index(Variants(), "avx2")])
	q := kernels.Quantised{Rows: 40, Cols: 64, Values: [16]float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, Block: 64}
	for i := range 40 {
		q.Scales = append(q.Scales, float32(i%8+1))
		for j := range 32 {
			q.Codes = append(q.Codes, byte(37*i+11*j))
		}
	}
	want := make([]float32, 40*64)
	q.Decode(want, 0)
	for _, order := range []kernels.Order{kernels.Serial, kernels.Tiles} {
		b := openBare(t, Options{Order: order})
		m, err := b.NewQuantised(kernels.BF16, []kernels.Quantised{q})
		require.NoError(t, err)
		b.SetSums(1 - order)
		got := upload(t, b, make([]float32, len(want)))
		b.Unpack(got, m)
		same(t, b.Name(), download(t, b, got), want)
	}
}

// A probe that other programs disturb does not keep a backend from using the tile unit, whose order it takes for the fastest.
func TestAProbeLeavesTheTileUnit(t *testing.T) {
	if unit := Tiles(); !unit.Native {
		t.Skip(unit.Reason)
	}
	t.Setenv("GRPO_CPU", "")
	before := fastest
	t.Cleanup(func() { fastest = before })
	fastest = always(fastestOf(variants(), prefers(variants()[slices.Index(Variants(), "avx2")])))
	b := openBare(t, Options{})
	b.SetSums(b.Fastest())
	require.True(t, hasTileUnit(b.ops), "%s takes sums in the order of %s", b.Name(), b.Sums())
}

// always gives the same.
func always[T any](x T) func() T { return func() T { return x } }
