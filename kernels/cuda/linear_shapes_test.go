//go:build gpu

package cuda

import (
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/internal/subprocess"
)

func init() {
	tasks["products"] = func() error { return inLab(everyShape) }
	tasks["rows alone"] = func() error { return inLab(rowsAlone) }
	tasks["gradients of weights"] = func() error { return inLab(weightGradients) }
	tasks["identity"] = func() error { return inLab(identity) }
}

var weightTypes = []kernels.DType{kernels.BF16, kernels.BF16Rounding, kernels.F32}

// tolerance is the largest error allowed of a sum of `terms` random terms in float32, in units of the root mean square of such sums. It
// grows with the number of terms, as there are more roundings.
func tolerance(terms int) float64 { return 5e-6 * math.Sqrt(max(1, float64(terms)/512)) }

// Products of many shapes agree with the oracle, have the same bits in every tile, and write nothing outside the window.
func everyShape(l *lab) error {
	worst := map[string]float64{}
	for i, s := range []struct{ t, n, k int }{
		{1, 1, 1}, {1, 7, 33}, {3, 33, 7}, {17, 100, 70}, {40, 65, 257}, {131, 150, 34}, {16, 32, 64}, {5, 9, 1100}, {65, 129, 96}, {2, 300, 16},
		{2, 5, 4096}, {3, 4096, 4},
	} {
		for j, dtype := range weightTypes {
			for _, op := range []string{linearName, gradXName} {
				l.processors = 1 + l.rng.IntN(8)
				// The six products of a shape cover aligned and unaligned operands, and all ways to write.
				o, aligned := epilogue{alpha: 1}, (i+j)%2 == 0
				if (i+j)%3 == 0 {
					o = epilogue{alpha: -0.5, accumulate: true}
				}
				e, err := l.product(op, dtype, s.t, s.n, s.k, o, aligned)
				if err != nil {
					return fmt.Errorf("%s, %v, %d rows, %d × %d, aligned %v: %w", op, dtype, s.t, s.n, s.k, aligned, err)
				}
				worst[op+" "+dtype.String()] = max(worst[op+" "+dtype.String()], e)
			}
		}
	}
	for _, op := range []string{linearName, gradXName} {
		for _, dtype := range weightTypes {
			fmt.Printf("figure: %s with weights of %v: off by %.1e at most\n", op, dtype, worst[op+" "+dtype.String()])
		}
	}
	return nil
}

// product computes one product in every tile, and again in the one that the backend chooses. It returns the largest difference from the
// oracle.
func (l *lab) product(op string, dtype kernels.DType, T, n, k int, o epilogue, aligned bool) (worst float64, err error) {
	w, m := l.matrix(dtype, n, k, aligned)
	outer, inner := n, k
	if op == gradXName {
		outer, inner = k, n
	}
	x, out := l.columns(T, inner, aligned), l.columns(T, outer, aligned)
	as := kernels.LinearOpt{Alpha: o.alpha, Accumulate: o.accumulate}
	if op == gradXName {
		l.oracle.LinearGradX(out.cols, x.cols, m, as, T)
	} else {
		if o.accumulate {
			bias := l.normals(n)
			o.bias, as.Bias = l.put(bias, 4*n), must(l.oracle.Alloc(kernels.F32, n))
			l.oracle.Upload(as.Bias, bias)
		}
		l.oracle.Linear(out.cols, x.cols, m, as, T)
	}
	want := l.expected(out)
	var first []float32
	for i, t := range append(slices.Clone(tilesOf(dtype)), tile{name: "chosen"}) {
		y, err := l.again(out), error(nil)
		switch {
		case t.name != "chosen":
			err = l.multiply(l.s, op, t, y, x.window, w, o, T)
		case op == linearName:
			err = l.linear(l.s, y, x.window, w, o, T)
		default:
			err = l.gradX(l.s, y, x.window, w, o, T)
		}
		if err != nil {
			return 0, err
		}
		got := l.all(y, out)
		if i == 0 {
			first = got
		}
		if worst = max(worst, largestError(want, got)); !(worst <= tolerance(x.n)) {
			return worst, fmt.Errorf("tile %s: off by %v, expected %v at most", t.name, worst, tolerance(x.n))
		}
		if err := errors.Join(sameBits("tile "+t.name, first, got), checkBeside(out, got)); err != nil {
			return worst, err
		}
	}
	return worst, l.free()
}

// checkBeside returns an error if a number outside the window was overwritten.
func checkBeside(c columns, got []float32) error {
	for i, x := range got {
		if column := (i - c.cols.From + c.stride) % c.stride; column < c.n && i >= c.cols.From && i < len(got)-4 {
			continue
		}
		if math.Float32bits(x) != math.Float32bits(c.data[i]) {
			return fmt.Errorf("number %d is beside the window, and was written", i)
		}
	}
	return nil
}

// The results of a row are the same in a batch and alone, whatever the tile and the position of the row in it.
func rowsAlone(l *lab) error {
	for range 200 {
		op, dtype := []string{linearName, gradXName}[l.rng.IntN(2)], weightTypes[l.rng.IntN(3)]
		T, outer, inner := 1+l.rng.IntN(140), 1+l.rng.IntN(70), 1+l.rng.IntN(150)
		n, k := outer, inner
		if op == gradXName {
			n, k = inner, outer
		}
		w, _ := l.matrix(dtype, n, k, l.rng.IntN(2) == 0)
		x, out := l.columns(T, inner, l.rng.IntN(2) == 0), l.columns(T, outer, true)
		tiles, row := tilesOf(dtype), l.rng.IntN(T)
		batch, alone := tiles[l.rng.IntN(len(tiles))], tiles[l.rng.IntN(len(tiles))]
		if err := l.multiply(l.s, op, batch, out.window, x.window, w, epilogue{alpha: 1}, T); err != nil {
			return err
		}
		together := l.get(out.at+ptr(4*row*out.stride), outer)
		one, y := x.window, window{l.alloc(4 * outer), outer, outer}
		one.at += ptr(4 * row * one.stride)
		if err := l.multiply(l.s, op, alone, y, one, w, epilogue{alpha: 1}, 1); err != nil {
			return err
		}
		what := fmt.Sprintf("%s, %v, row %d of %d in %s and alone in %s, %d × %d", op, dtype, row, T, batch.name, alone.name, n, k)
		if err := errors.Join(sameBits(what, together, l.get(y.at, outer)), l.free()); err != nil {
			return err
		}
	}
	return nil
}

// Gradients of weights agree with the oracle, and have the same bits in every tile, with and without split-K.
func weightGradients(l *lab) error {
	worst := 0.0
	for i, s := range []struct{ t, n, k int }{{1, 1, 1}, {3, 7, 33}, {100, 33, 70}, {511, 40, 9}, {512, 8, 65}, {513, 65, 8}, {1300, 5, 67}} {
		dy, x := l.columns(s.t, s.n, i%2 == 0), l.columns(s.t, s.k, i%3 == 0)
		before := l.normals(s.n * s.k)
		dw := must(l.oracle.Alloc(kernels.F32, len(before)))
		l.oracle.Upload(dw, before)
		l.oracle.LinearGradW(dw, dy.cols, x.cols, -0.5, kernels.F32, s.t)
		want := make([]float32, len(before))
		must(0, l.oracle.Download(want, dw))
		chosen, sums := l.put(before, 4*len(before)), scratch{}
		if numbers := l.sumsOfGradW(s.n, s.k, s.t); numbers > 0 {
			sums = scratch{l.alloc(4 * numbers), numbers}
		}
		if err := l.gradW(l.s, chosen, dy.window, x.window, -0.5, sums, s.t); err != nil {
			return err
		}
		first := l.get(chosen, len(before))
		for _, t := range gradWTiles {
			for _, numbers := range []int{0, 3 * len(before), 3 * len(before)} {
				at, sums := l.put(before, 4*len(before)), scratch{}
				if numbers > 0 {
					sums = scratch{l.alloc(4 * numbers), numbers}
				}
				if err := l.gradWInTile(l.s, t, at, dy.window, x.window, -0.5, sums, s.t); err != nil {
					return err
				}
				got := l.get(at, len(before))
				if worst = max(worst, largestError(want, got)); !(worst <= tolerance(0)) {
					return fmt.Errorf("%d rows, %d × %d, tile %s: off by %v, expected %v at most", s.t, s.n, s.k, t.name, worst, tolerance(0))
				}
				if err := sameBits(fmt.Sprintf("%d rows, %d × %d, tile %s", s.t, s.n, s.k, t.name), first, got); err != nil {
					return err
				}
			}
		}
		if err := l.free(); err != nil {
			return err
		}
	}
	fmt.Printf("figure: linear_grad_w: off by %.1e at most\n", worst)
	return nil
}

// Multiplied by the identity in bf16, an f32 number stays unchanged, since its three parts add up to it. Rounded to bf16, it becomes the
// nearest bf16 number.
func identity(l *lab) error {
	const n = 40
	x := l.columns(16, n, true)
	for i := range x.data {
		x.data[i] *= float32(math.Exp2(float64(l.rng.IntN(200) - 100)))
	}
	x.at = l.again(x).at
	w := weights{at: l.put(unit(n), 2*n*n), dtype: kernels.BF16, stride: n, n: n, k: n}
	for _, op := range []string{linearName, gradXName} {
		for _, w.dtype = range []kernels.DType{kernels.BF16, kernels.BF16Rounding} {
			out := l.columns(16, n, true)
			if err := l.multiply(l.s, op, tensorTiles[2], out.window, x.window, w, epilogue{alpha: 1}, 16); err != nil {
				return err
			}
			got := l.all(out.window, out)
			for i, y := range got[4 : len(got)-4] {
				want := x.data[4+i]
				if i%out.stride >= n {
					continue
				}
				if bits := math.Float32bits(want); w.dtype == kernels.BF16Rounding {
					want = math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
				}
				if y != want {
					return fmt.Errorf("%s, %v: %v became %v, expected %v", op, w.dtype, x.data[4+i], y, want)
				}
			}
		}
	}
	return nil
}

// unit is the identity in bf16.
func unit(n int) []uint16 {
	w := make([]uint16, n*n)
	for i := range n {
		w[i*n+i] = 0x3f80
	}
	return w
}

// figure is a line that a task prints for the log of the test.
var figure = regexp.MustCompile(`(?m)^figure: (.*)\n?`)

func TestProducts(t *testing.T) {
	for _, task := range []string{"identity", "products", "codes", "narrowed", "few", "rows alone", "gradients of weights"} {
		t.Run(task, func(t *testing.T) {
			out, ok := subprocess.Emulated(t, task)
			require.True(t, ok, out)
			for _, line := range figure.FindAllStringSubmatch(out, -1) {
				t.Log(line[1])
			}
			require.Empty(t, figure.ReplaceAllString(out, ""), "the device found something")
		})
	}
}

// Large tiles are chosen unless they leave a multiprocessor without work.
func TestTheChoiceOfTiles(t *testing.T) {
	card := &products{processors: 132}
	for _, c := range []struct {
		rows, columns int
		tile          string
	}{
		{1, 9728, "16x32"}, {16, 150000, "16x32"}, {17, 2560, "16x32"}, {17, 9728, "32x64"}, {128, 2560, "32x64"}, {128, 19456, "128x128"},
		{64, 19456, "32x64"}, {16384, 2560, "128x128"}, {16384, 64, "32x64"}, {16384, 32, "16x32"}, {1, 1, "16x32"},
	} {
		require.Equal(t, c.tile, card.choose(tensorTiles, c.rows, c.columns).name, c)
	}
	require.Equal(t, "64x64", card.choose(f32Tiles, 16384, 2560).name)
	require.Equal(t, "32x32", card.choose(f32Tiles, 16384, 16).name)
	require.Equal(t, "32x32", card.choose(f32Tiles, 16, 2560).name)
	require.Zero(t, card.sumsOfGradW(9728, 2560, 16384), "there is a block for every multiprocessor")
	require.Zero(t, card.sumsOfGradW(16, 2560, 512), "there is one chain")
	require.Equal(t, 32*16*2560, card.sumsOfGradW(16, 2560, 16384))
}

// Properties of the PTX: all operands are copied 16 bytes at a time, or 4 if they are not aligned; fragments are not loaded more often
// than necessary; nothing is in local memory.
func TestProductsInPTX(t *testing.T) {
	entries := map[string]string{}
	for _, file := range productFiles {
		text, err := os.ReadFile("ptx/" + file + ".ptx")
		require.NoError(t, err)
		for _, entry := range strings.Split(string(text), ".visible .entry ")[1:] {
			name, body, _ := strings.Cut(entry, "(")
			entries[name] = body
			require.NotContains(t, body, ".local", name)
		}
	}
	count := func(name, instruction string) int { return strings.Count(entries[name], instruction) }
	for _, op := range []string{linearName, gradXName} {
		for dtype, parts := range map[kernels.DType]int{kernels.BF16: 3, kernels.BF16Rounding: 1} {
			for _, tile := range tensorTiles {
				name, warps := tile.kernel(op, dtype).String(), tile.threads/32
				mma := tile.rows * tile.columns * tile.depth / (16 * 8 * 16) / warps
				require.Equal(t, mma*parts, count(name, "mma.sync"), name)
				require.LessOrEqual(t, count(name, "ldmatrix.sync"), mma/2, name)
				require.LessOrEqual(t, count(name, "ld.shared.v2.f32"), 2*mma, name)
				require.Zero(t, count(name, "ld.shared.f32"), name)
				require.LessOrEqual(t, tile.tensorShared(op == gradXName), 99<<10, name)
				requireCopies(t, entries[name], 2*tile.rows*tile.columns/tile.threads, name)

				name = tile.kernel(op, dtype).ofCodes().String()
				require.Equal(t, mma*parts, count(name, "mma.sync"), name)
				require.Zero(t, count(name, "ldmatrix.sync"), name)
				require.LessOrEqual(t, tile.codesShared(op == gradXName), 99<<10, name)
			}
		}
		for _, tile := range f32Tiles {
			name := tile.kernel(op, kernels.F32).String()
			const taken, uses = 5, 4 // a step is loaded ahead
			results := tile.rows * tile.columns / tile.threads
			loads, written := taken*(4+results/4), writtenF32[name]
			if op == gradXName {
				loads = taken * (4 + 4)
			}
			require.Equal(t, loads, count(name, "ld.shared.v4.f32")+count(name, "ld.shared.v2.f32"), name)
			require.Equal(t, 4*uses*results+written.fma, count(name, "fma.rn.f32"), name)
			require.LessOrEqual(t, tile.f32Shared(false, op == gradXName), 99<<10, name)
			requireCopies(t, entries[name], written.loads, name)
		}
	}
	for _, tile := range gradWTiles {
		name := gradWName + "_" + tile.name
		mma := 6 * tile.rows * tile.columns * tile.depth / (16 * 8 * 16) / (tile.threads / 32)
		require.Equal(t, mma, count(name, "mma.sync"), name)
		require.LessOrEqual(t, count(name, "ld.shared.f32"), mma, name)
		require.LessOrEqual(t, tile.f32Shared(true, true), 99<<10, name)
		requireCopies(t, entries[name], 2*tile.rows*tile.columns/tile.threads, name)
	}
}

// writtenF32 has the numbers of instructions with which kernels of f32 write results, summed over all ways to do so: with or without adding
// the old values, in vectors or one by one.
var writtenF32 = map[string]struct{ fma, loads int }{"linear_f32_64x64": {31, 62}, "linear_f32_32x32": {18, 30},
	"linear_grad_x_f32_64x64": {47, 80}, "linear_grad_x_f32_32x32": {29, 40}}

// requireCopies checks that operands are copied to shared memory asynchronously. Only old values of results and the bias may be loaded from
// global memory directly, at most the given number.
func requireCopies(t *testing.T, body string, most int, name string) {
	t.Helper()
	require.GreaterOrEqual(t, len(regexp.MustCompile(`cp\.async\.cg\.shared\.global \[.*\], \[.*\], 16, `).FindAllString(body, -1)), 4, name)
	require.Contains(t, body, "cp.async.ca.shared.global", name)
	require.LessOrEqual(t, strings.Count(body, "ld.global.f32"), most, name)
}
