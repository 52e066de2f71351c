//go:build gpu

package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
	"github.com/seed-7879b91d/grpo/kernels/cuda/internal/subprocess"
)

func init() {
	tasks["narrowed"] = func() error { return inLab(narrowedLikeOthers) }
	tasks["narrowing backend"] = func() error { return onBackend(narrowingBackend) }
}

// onBackend calls a task with the backend of a card.
func onBackend(task func(*Backend) error) error {
	d, err := driver.Open(0, driver.Options{})
	if err != nil {
		return err
	}
	b, err := NewBackend(d)
	if err == nil {
		err = errors.Join(task(b), b.Close())
	}
	return errors.Join(err, d.Close())
}

// randomMatrix is a bf16 matrix of normal numbers.
func randomMatrix(b *Backend, rng *rand.Rand, rows, cols int) kernels.Matrix {
	w := must(b.NewMatrix(kernels.BF16Rounding, rows, cols))
	var numbers []byte
	for _, x := range normals(rng, rows*cols) {
		numbers = binary.LittleEndian.AppendUint16(numbers, uint16(math.Float32bits(x)>>16))
	}
	b.Load(w, 0, kernels.HostRows{Encoding: kernels.EncodedBF16, Bytes: numbers})
	return w
}

// Products of narrowed rows, in every tile, have the same bits as products that round the rows in each tile, and write nothing outside the
// window.
func narrowedLikeOthers(l *lab) error {
	for i, s := range []struct{ t, n, k int }{{1, 8, 8}, {3, 24, 200}, {130, 168, 104}, {257, 328, 64}, {128, 320, 136}, {140, 64, 330}} {
		for _, op := range []string{linearName, gradXName} {
			n, k, inner, outer := s.n, s.k, s.k, s.n
			if op == gradXName {
				n, k = k, n
			}
			w, _ := l.matrix(kernels.BF16Rounding, n, k, true)
			x, out := l.columns(s.t, inner, i%2 == 0), l.columns(s.t, outer, true)
			o := epilogue{alpha: 0.7, accumulate: i%2 == 0}
			if i%3 == 0 {
				o.bias = l.put(l.normals(outer), 4*outer)
			}
			want := l.again(out)
			if err := l.multiply(l.s, op, tensorTiles[0], want, x.window, w, o, s.t); err != nil {
				return err
			}
			for _, t := range narrowedTiles {
				got, room := l.again(out), l.alloc(narrowedBytes(s.t, inner))
				if err := l.narrowAndMultiply(l.s, op, t, got, x.window, room, w, o, s.t); err != nil {
					return err
				}
				what := fmt.Sprintf("%s, %d rows, %d × %d, tile %s", op, s.t, n, k, t.name)
				if err := errors.Join(sameBits(what, l.all(want, out), l.all(got, out)), checkBeside(out, l.all(got, out))); err != nil {
					return err
				}
			}
			if err := l.free(); err != nil {
				return err
			}
		}
	}
	return nil
}

// A backend gives the same bits whether it narrows rows, as on a card of one multiprocessor, or not, as on a card that no product fills.
func narrowingBackend(b *Backend) error {
	const T, H, V = 70, 72, headVocabulary + 40 // a whole chunk of a vocabulary, and one that is too small for a tile
	rng := rand.New(rand.NewPCG(3, 4))
	put := func(n int) kernels.Buffer {
		x := must(b.Alloc(kernels.F32, n))
		b.Upload(x, normals(rng, n))
		return x
	}
	w := randomMatrix(b, rng, V, H)
	h, dlogp, targets := put(T*H), put(T), must(b.Alloc(kernels.I32, T))
	b.Upload(targets, make([]int32, T))
	var all [2][][]float32
	for i, processors := range []int{1, 1 << 20} {
		b.products.processors = processors
		if _, narrows := b.products.narrows(linearName, windowOf(kernels.Whole(h, V)), weightsOf(w), T); narrows != (i == 0) {
			return fmt.Errorf("on a card of %d processors, narrows is %v", processors, narrows)
		}
		out, dx, dw := must(b.Alloc(kernels.F32, T*V)), must(b.Alloc(kernels.F32, T*H)), must(b.Alloc(kernels.F32, V*H))
		scored := kernels.LogProbOut{LogP: must(b.Alloc(kernels.F32, T)), Entropy: must(b.Alloc(kernels.F32, T)),
			LSE: must(b.Alloc(kernels.F32, T)), Jacobian: must(b.Alloc(kernels.F32, T*H))}
		b.Linear(kernels.Whole(out, V), kernels.Whole(h, H), w, kernels.LinearOpt{Alpha: 1}, T)
		b.LinearGradX(kernels.Whole(dx, H), kernels.Whole(out, V), w, kernels.LinearOpt{Alpha: 0.5}, T)
		b.LogProb(scored, h, w, targets, kernels.Logits{InvTemp: 1}, T)
		b.LogProbGradW(dw, dlogp, h, w, targets, scored.LSE, kernels.Logits{InvTemp: 1}, T)
		for _, x := range []kernels.Buffer{out, dx, dw, scored.LogP, scored.Entropy, scored.LSE, scored.Jacobian} {
			got := make([]float32, x.Len())
			if err := b.Download(got, x); err != nil {
				return err
			}
			all[i] = append(all[i], got)
		}
	}
	for i := range all[0] {
		if err := sameBits(fmt.Sprintf("result %d", i), all[0][i], all[1][i]); err != nil {
			return err
		}
	}
	return nil
}

func TestANarrowingBackend(t *testing.T) {
	out, ok := subprocess.Emulated(t, "narrowing backend")
	require.True(t, ok, out)
	require.Empty(t, out)
}

func TestWhichProductsNarrow(t *testing.T) {
	card := &products{processors: 132, large: largeMatrix}
	tileOf := func(op string, w weights, out window, T int) string {
		best, ok := card.narrows(op, out, w, T)
		require.Equal(t, ok, best.name != "")
		return best.name
	}
	of := func(n, k int) (weights, window) {
		return weights{dtype: kernels.BF16Rounding, stride: k, n: n, k: k}, window{0, n, n}
	}
	for _, c := range []struct {
		op         string
		rows, n, k int
		tile       string // the comment is µs on an H100 in 128x128 and in 128x160
	}{
		{linearName, 4096, 19456, 2560, "128x160"}, // 950, 939
		{linearName, 4096, 6144, 2560, "128x128"},  // 315, 341
		{linearName, 4096, 2560, 9728, "128x160"},  // 482, 476
		{linearName, 4096, 2560, 4096, "128x160"},  // 212, 211
		{linearName, 2048, 4096, 2560, "128x128"},  // 112, 143
		{linearName, 256, 9728, 2560, "128x128"},   // 59.9, 60.2
		{linearName, 16384, 2560, 4096, "128x160"}, // 759, 754
		{gradXName, 2048, 4096, 2560, "128x160"},   // 121, 103
		{gradXName, 4096, 2560, 9728, "128x128"},   // 480, 541
		{gradXName, 4096, 19456, 2560, "128x160"},  // 983, 981
		{gradXName, 4096, 2560, 4096, "128x128"},   // 224, 287
		{gradXName, 4096, 6144, 2560, "128x160"},   // 319, 320
		{linearName, 128, 151936, 2560, "128x128"}, // 353, 379
		{linearName, 1024, 1024, 2560, ""}, {linearName, 4096, 2556, 2560, ""}, {linearName, 4096, 2560, 2556, ""},
		{gradXName, 64, 19456, 2560, ""},
	} {
		w, out := of(c.n, c.k)
		if c.op == gradXName {
			out = window{0, c.k, c.k}
		}
		require.Equal(t, c.tile, tileOf(c.op, w, out, c.rows), c)
	}
	w, out := of(4096, 2560)
	for what, change := range map[string]func(*weights, *window){
		"exact products": func(w *weights, _ *window) { w.dtype = kernels.BF16 },
		"f32":            func(w *weights, _ *window) { w.dtype = kernels.F32 },
		"codes":          func(w *weights, _ *window) { w.codes.values = 1 },
		"weights":        func(w *weights, _ *window) { w.at = 8 },
		"a window":       func(_ *weights, out *window) { out.at = 4 },
		"odd rows":       func(_ *weights, out *window) { out.stride++ },
	} {
		w, out := w, out
		change(&w, &out)
		require.Empty(t, tileOf(linearName, w, out, 4096), what)
	}
	require.Equal(t, 2*128*64, narrowedBytes(1, 1))
	for _, tile := range append(narrowedTiles, fewTiles...) {
		rows := tile.stripsIn(0, 130).rows
		require.Zero(t, rows%tile.rows)
		require.LessOrEqual(t, 2*rows*strip, narrowedBytes(130, 1), "which %s reads", tile.name)
	}
	require.Equal(t, 32, tile16x16.stripsIn(0, 1).rows)
	require.Equal(t, 2*4096*19456, narrowedBytes(100000, 19456), "the chunks share the memory")
}

func TestNarrowedInPTX(t *testing.T) {
	text, err := os.ReadFile("ptx/" + narrowedLinearName + ".ptx")
	require.NoError(t, err)
	looked := 0
	for _, entry := range strings.Split(string(text), ".visible .entry ")[1:] {
		name, body, _ := strings.Cut(entry, "(")
		for _, tile := range narrowedTiles {
			require.LessOrEqual(t, tile.narrowedShared(), 99<<10)
			if strings.HasSuffix(name, tile.name) {
				looked++
				mma := tile.rows * tile.columns * tile.depth / (16 * 8 * 16) / (tile.threads / 32)
				require.Equal(t, mma, strings.Count(body, "mma.sync"), name)
				require.LessOrEqual(t, strings.Count(body, "ldmatrix.sync"), mma/4+8, name)
			}
		}
		require.NotContains(t, body, ".local", name)
	}
	require.Equal(t, 2*len(narrowedTiles), looked, "forward, and gradients")
}

// The memory planned for a number of rows is enough for the narrowed rows of any smaller batch.
func TestThePlanHasAllNarrowedRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for range 100 {
		heads := 1 << rng.IntN(6)
		w := kernels.Work{Rows: 1 + rng.IntN(9000), Hidden: 64 * (1 + rng.IntN(64)), Intermediate: 64 * (1 + rng.IntN(160)),
			Vocab: 1 + rng.IntN(200000),
			Heads: kernels.Heads{Q: heads, KV: 1 + rng.IntN(heads), Dim: 128}}
		b := &Backend{products: &products{processors: 1 + rng.IntN(200), large: largeMatrix}}
		linear, gradX, head := b.narrowedRows(linearName, w), b.narrowedRows(gradXName, w), b.narrowedHead(w)
		for T := 1; T <= w.Rows; T += 1 + T/40 {
			less := w
			less.Rows = T
			require.LessOrEqual(t, b.narrowedRows(linearName, less), linear, "%d of %+v", T, w)
			require.LessOrEqual(t, b.narrowedRows(gradXName, less), gradX, "%d of %+v", T, w)
			require.LessOrEqual(t, b.narrowedHead(less), head, "%d of %+v", T, w)
		}
	}
}

// LogProb may narrow few rows but not many: the plan has memory for the few.
func TestThePlanOfNarrowedRows(t *testing.T) {
	b := &Backend{products: &products{processors: 132, large: largeMatrix}}
	w := kernels.Work{Rows: 200, Hidden: 2560, Vocab: 151936}
	require.False(t, b.narrows(linearName, w.Rows, headVocabulary, w.Hidden, headVocabulary))
	require.True(t, b.narrows(linearName, 100, headVocabulary, w.Hidden, headVocabulary))
	require.Equal(t, narrowedBytes(100, w.Hidden)+narrowedBytes(100, headVocabulary), b.narrowedHead(w))
	for rows := range drawRows {
		require.LessOrEqual(t, narrowedBytes(rows+1, w.Hidden), b.narrowedDraw(w))
	}
}
