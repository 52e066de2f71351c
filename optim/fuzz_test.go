package optim

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

// A file of moments is loaded, and saved as the same state; or it is refused as input, changes nothing, and no number in it causes a
// large allocation.
func FuzzLoadState(f *testing.F) {
	const n = 40
	good := newProblem(f, kerneltest.NewReference(), draws(1, n), Defaults())
	path := filepath.Join(f.TempDir(), "state")
	for step := range uint64(3) {
		if err := good.SaveState(path); err != nil {
			f.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add(bytes.Replace(text, []byte(`[40]`), []byte(`[4398046511104]`), 1))
		good.step(draws(2+step, n), 0.1)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p := newProblem(t, kerneltest.NewReference(), draws(1, n), Defaults())
		p.step(draws(2, n), 0.1)
		dir := t.TempDir()
		given, saved := filepath.Join(dir, "given"), filepath.Join(dir, "saved")
		if err := os.WriteFile(given, text, 0o644); err != nil {
			t.Fatal(err)
		}
		before, steps := p.all(), p.Steps()
		var heap, after runtime.MemStats
		runtime.ReadMemStats(&heap)
		err := p.LoadState(given)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - heap.TotalAlloc; used > 1<<20+64*uint64(len(text)) {
			t.Fatalf("%d bytes are allocated for a file of %d", used, len(text))
		}
		if err != nil {
			if !badinput.Is(err) || bytes.ContainsRune([]byte(err.Error()), '\n') {
				t.Fatalf("not an input error of one line: %q", err)
			}
			if !same(before, p.all()) || steps != p.Steps() {
				t.Fatalf("a refused file changed the state: %v", err)
			}
			return
		}
		if err := p.SaveState(saved); err != nil {
			t.Fatal(err)
		}
		again := newProblem(t, kerneltest.NewReference(), p.get(p.params), Defaults())
		if err := again.LoadState(saved); err != nil || again.Steps() != p.Steps() || !same(p.all(), again.all()) {
			t.Fatalf("what was taken over is saved as something else: %v", err)
		}
	})
}

// same compares bits: numbers may be NaN.
func same(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}
