//go:build gpu

package cuda

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/internal/subprocess"
)

func init() {
	tasks["few"] = func() error { return inLab(fewLikeOthers) }
	tasks["few drawn"] = func() error { return onBackend(fewDrawn) }
}

// The tiles for few rows and for few results give the same bits as those for many, and write nothing outside the window.
func fewLikeOthers(l *lab) error {
	for i, s := range []struct {
		tiles   []tile
		dtype   kernels.DType
		t, n, k int
	}{
		{[]tile{tile4x8}, kernels.F32, 1, 1, 128}, {[]tile{tile4x8}, kernels.F32, 9, 35, 1024}, {[]tile{tile4x8}, kernels.F32, 2, 96, 896},
		{fewTiles, kernels.BF16Rounding, 1, 8, 8}, {fewTiles, kernels.BF16Rounding, 3, 40, 1408}, {fewTiles, kernels.BF16Rounding, 35, 104, 200},
		{fewTiles, kernels.BF16Rounding, 130, 168, 1032},
	} {
		w, _ := l.matrix(s.dtype, s.n, s.k, true)
		x, out := l.columns(s.t, s.k, true), l.columns(s.t, s.n, true)
		o := epilogue{alpha: 0.7, accumulate: i%2 == 0}
		if i%3 == 0 {
			o.bias = l.put(l.normals(s.n), 4*s.n)
		}
		want := l.again(out)
		if err := l.multiply(l.s, linearName, tilesOf(s.dtype)[0], want, x.window, w, o, s.t); err != nil {
			return err
		}
		for _, t := range s.tiles {
			got := l.again(out)
			err := error(nil)
			if s.tiles[0] == fewTiles[0] {
				err = l.narrowAndMultiply(l.s, linearName, t, got, x.window, l.alloc(narrowedBytes(s.t, s.k)), w, o, s.t)
			} else {
				err = l.multiply(l.s, linearName, t, got, x.window, w, o, s.t)
			}
			if err != nil {
				return err
			}
			what := fmt.Sprintf("%v, %d rows, %d × %d, tile %s", s.dtype, s.t, s.n, s.k, t.name)
			if err := errors.Join(sameBits(what, l.all(want, out), l.all(got, out)), checkBeside(out, l.all(got, out))); err != nil {
				return err
			}
		}
		if err := l.free(); err != nil {
			return err
		}
	}
	return nil
}

// Draws do not depend on whether rows are narrowed, whether the rows fill one round, part of one or more than one.
func fewDrawn(b *Backend) error {
	const n, H, V = drawRows + 12, 128, 264
	rng := rand.New(rand.NewPCG(5, 6))
	put := func(t kernels.DType, x any, n int) kernels.Buffer {
		to := must(b.Alloc(t, n))
		b.Upload(to, x)
		return to
	}
	w := randomMatrix(b, rng, V, H)
	h, ones := put(kernels.F32, normals(rng, n*H), n*H), put(kernels.F32, slices.Repeat([]float32{1}, n), n)
	in := kernels.DrawIn{InvTemp: ones, Uniform: put(kernels.F64, slices.Repeat([]float64{0.4}, n), n),
		TopK: put(kernels.I32, make([]int32, n), n), TopP: ones, MinP: put(kernels.F32, make([]float32, n), n)}
	draw := func(rows, large int) ([]float32, error) {
		b.products.large = large
		out, got := kernels.DrawOut{Token: must(b.Alloc(kernels.I32, n)), LogP: must(b.Alloc(kernels.F32, n))}, make([]float32, rows)
		b.Draw(out, h, w, in, rows)
		return got, b.Download(got, out.LogP.Slice(0, rows))
	}
	want, err := draw(n, largeMatrix)
	if err != nil {
		return err
	}
	for _, rows := range []int{n, drawRows + 3, 70, 9, 1} {
		got, err := draw(rows, 1)
		if err = errors.Join(err, sameBits(fmt.Sprintf("%d rows", rows), want[:rows], got)); err != nil {
			return err
		}
	}
	return nil
}

func TestFewDrawn(t *testing.T) {
	out, ok := subprocess.Emulated(t, "few drawn")
	require.True(t, ok, out)
	require.Empty(t, out)
}

// Kernels for few rows copy all operands 16 bytes at a time; only the old values of results are loaded from global memory directly.
func TestFewInPTX(t *testing.T) {
	looked := 0
	for file, tiles := range map[string][]tile{"linear_f32_few": {tile4x8}, "linear_narrowed_few": fewTiles} {
		text, err := os.ReadFile("ptx/" + file + ".ptx")
		require.NoError(t, err)
		entries := strings.Split(string(text), ".visible .entry ")[1:]
		require.Len(t, entries, len(tiles))
		for _, entry := range entries {
			name, body, _ := strings.Cut(entry, "(")
			require.NotContains(t, body, ".local", name)
			require.NotContains(t, body, "ld.global.u16", name)
			require.NotContains(t, body, "cp.async.ca", name)
			for _, tile := range tiles {
				if name == tile.narrowed(linearName).String() {
					looked++
					require.Equal(t, tile.rows*tile.columns*tile.depth/(16*8*16)/(tile.threads/32), strings.Count(body, "mma.sync"), name)
				}
			}
		}
	}
	require.Equal(t, len(fewTiles), looked)
	require.LessOrEqual(t, tile4x8.shared4x8(), 99<<10)
	for _, tile := range fewTiles {
		require.LessOrEqual(t, tile.narrowedShared(), 99<<10)
	}
}

// Which kernel computes a product of few rows. For a model with a hidden size of 2,560 it is the fastest of all that were measured on an
// H100, or within six percent of it.
func TestWhichProductsAreFew(t *testing.T) {
	card := &products{processors: 132, large: largeMatrix}
	kernelOf := func(dtype kernels.DType, T, n, k int) string {
		w := weights{dtype: dtype, stride: k, n: n, k: k}
		if t, ok := card.narrows(linearName, window{0, n, n}, w, T); ok {
			return t.narrowed(linearName).String()
		}
		if card.suits4x8(window{0, k, k}, w, T) {
			return tile4x8.kernel(linearName, dtype).String()
		}
		return card.choose(tilesOf(dtype), T, n).kernel(linearName, dtype).String()
	}
	rows := []int{1, 8, 16, 17, 32, 33, 64, 65, 128}
	for _, c := range []struct {
		n, k  int
		tiles string // for each of these rows
	}{
		{2560, 9728, "16x16 16x16 16x16 32x16 32x16 32x16 32x16 64x40 64x40"},
		{2560, 4096, "16x16 16x16 16x16 32x16 32x16 32x16 32x16 64x40 64x40"},
		{6144, 2560, "16x16 16x16 16x16 32x16 32x16 32x32 32x32 64x96 64x96"},
		{19456, 2560, "16x16 16x16 16x16 32x32 32x32 64x40 64x40 128x80 128x80"},
		{151936, 2560, "16x16 16x16 16x16 32x32 32x32 64x40 64x40 128x128 128x128"},
	} {
		for i, tile := range strings.Fields(c.tiles) {
			require.Equal(t, "linear_narrowed_bf16_"+tile, kernelOf(kernels.BF16Rounding, rows[i], c.n, c.k), "%v, %d rows", c, rows[i])
		}
	}
	require.Equal(t, "linear_bf16_16x32", kernelOf(kernels.BF16Rounding, 1, 64, 64))
	require.Equal(t, "linear_bf16_16x32", kernelOf(kernels.BF16Rounding, 9, 1024, 1024))
	require.Equal(t, "linear_split_16x32", kernelOf(kernels.BF16, 1, 2560, 2560))
	for _, c := range []struct {
		rows, n, k int
		tile       string
	}{
		{1, 32, 9728, "4x8"}, {128, 32, 9728, "4x8"}, {128, 32, 2560, "4x8"}, {64, 32, 4096, "4x8"}, {1, 9728, 32, "32x32"},
		{128, 9728, 32, "64x64"}, {128, 4096, 32, "32x32"}, {4096, 32, 2560, "32x32"}, {4096, 32, 9728, "32x32"}, {4096, 64, 2560, "32x32"},
		{4096, 9728, 32, "64x64"}, {4096, 2560, 32, "64x64"}, {4096, 9728, 16, "64x64"},
	} {
		require.Equal(t, "linear_f32_"+c.tile, kernelOf(kernels.F32, c.rows, c.n, c.k), c)
	}
}
