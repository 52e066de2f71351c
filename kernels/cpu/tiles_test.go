package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/testvariants"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/tiles"
)

// Every variant computes the same bits in the order of tiles. Baseline x86-64 has no fused multiply-adds, but products of bf16 are
// exact without, unless they are subnormal.
func TestTheSameTiles(t *testing.T) {
	var all []kernels.Backend
	for _, name := range Variants() {
		all = append(all, open(t, Options{Threads: 2, Variant: name, Order: kernels.Tiles}))
	}
	tiles.Run(t, all...)
	defer func(usual int) { streamedBytes = usual }(streamedBytes)
	streamedBytes = 0 // all results are written around the caches
	tiles.Run(t, all...)
}

// An adapter that is computed together with its linear gives the bits of separate products, in every variant, also if results are
// written around the caches, which is usually tested in the widest variant alone.
func TestAdaptersInTiles(t *testing.T) {
	defer func(usual int) { streamedBytes = usual }(streamedBytes)
	for _, bytes := range []int{streamedBytes, 0} {
		streamedBytes = bytes
		for i, name := range testvariants.EveryNth(2, Variants()...) {
			if bytes == 0 && i > 0 && !testvariants.Exhaustive {
				break
			}
			t.Run(fmt.Sprintf("%s, %d bytes", name, bytes), func(t *testing.T) {
				kerneltest.RunAdapters(t, func(threads int) kernels.Backend {
					b, err := New(Options{Threads: threads, Variant: name, Order: kernels.Tiles})
					require.NoError(t, err)
					return b
				})
			})
		}
	}
}

// Rows that share the panels of a task, depth by depth, have the same sums as a single row, which takes a panel from end to end: in both
// directions, rounded and in pieces.
func TestManyRowsShareDepths(t *testing.T) {
	const n, k, T = 1030, 1100, 100
	b := open(t, Options{Threads: 1, Order: kernels.Tiles})
	rng := rand.New(rand.NewPCG(8, 8))
	room := func(count int) kernels.Buffer {
		buf, err := b.Alloc(kernels.F32, count)
		require.NoError(t, err)
		return buf
	}
	weights := make([]byte, 2*n*k)
	for i := range n * k {
		binary.LittleEndian.PutUint16(weights[2*i:], uint16(math.Float32bits(float32(rng.NormFloat64()))>>16))
	}
	for _, dtype := range []kernels.DType{kernels.BF16Rounding, kernels.BF16} {
		w, err := b.NewMatrix(dtype, n, k)
		require.NoError(t, err)
		b.Load(w, 0, kernels.HostRows{Encoding: kernels.EncodedBF16, Bytes: weights})
		require.NoError(t, b.Compress(w))
		for _, forward := range []bool{true, false} {
			product, from, to := b.LinearGradX, n, k
			if forward {
				product, from, to = b.Linear, k, n
			}
			numbers, got, want := make([]float32, T*from), make([]float32, T*to), make([]float32, to)
			for i := range numbers {
				numbers[i] = float32(rng.NormFloat64())
			}
			x, out, o := room(T*from), room(T*to), kernels.LinearOpt{Alpha: 1}
			b.Upload(x, numbers)
			product(kernels.Whole(out, to), kernels.Whole(x, from), w, o, T)
			require.NoError(t, b.Download(got, out))
			for _, row := range []int{0, 15, 16, 31, 32, 47, 96, T - 1} {
				b.Upload(x, numbers[row*from:(row+1)*from])
				product(kernels.Whole(out, to), kernels.Whole(x, from), w, o, 1)
				require.NoError(t, b.Download(want, out))
				require.Equal(t, want, got[row*to:(row+1)*to], "row %d", row)
			}
		}
	}
}

// withoutTileUnit is the widest variant that computes tiles by multiply-adds.
func withoutTileUnit() string {
	all := Variants()
	if hasTileUnit(variants()[0]) {
		all = all[1:]
	}
	return all[0]
}
