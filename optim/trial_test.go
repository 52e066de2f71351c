package optim

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

// A step that is tried first takes no copy of the slabs on the host, and has the kernel's result, whatever is spared.
func TestAStepOnTrialTakesLittleMemory(t *testing.T) {
	const n, huge = 9*pieceLen + 7, 1e30
	onEach(t, func(t *testing.T, b kernels.Backend) {
		late := strings.HasSuffix(t.Name(), "deferred") // it also copies all uploads and downloads
		cfg := Defaults()
		cfg.WeightDecay = 1e-30
		p, plain := newProblem(t, b, draws(1, n), cfg), newProblem(t, b, draws(1, n), cfg)
		g := draws(2, n)
		for _, q := range []problem{p, plain} {
			if err := q.Spare([][2]int{{5, 9}, {pieceLen - 3, 3*pieceLen + 2}, {4 * pieceLen, 4 * pieceLen}, {n - 1, n}}); err != nil {
				t.Fatal(err)
			}
			q.b.Upload(q.grads, g)
		}
		plain.improve(cfg.kernelStep(huge, Update{Step: 1, ClipScale: 1}))
		step := func(rate float64, fine func(err error) bool) {
			t.Helper()
			var from, to runtime.MemStats
			runtime.ReadMemStats(&from)
			_, err := p.Step(rate)
			runtime.ReadMemStats(&to)
			if used := to.TotalAlloc - from.TotalAlloc; used > 4*n && !late {
				t.Errorf("%d bytes are allocated for %d numbers", used, n)
			}
			if !fine(err) {
				t.Errorf("%v", err)
			}
		}
		step(huge, func(err error) bool { return err == nil })
		if !slices.Equal(p.all(), plain.all()) {
			t.Error("a step tried piece by piece differs from a plain one")
		}
		before := p.all()
		cfg.WeightDecay = 1e-28 // for numbers around 1e30
		if err := p.Configure(cfg); err != nil {
			t.Fatal(err)
		}
		step(3e38, func(err error) bool { return errors.As(err, new(*OverflowError)) })
		g[n-2] = 1e20 // at a later index than the overflow by the rate
		p.b.Upload(p.grads, g)
		step(3e38, func(err error) bool { return errors.As(err, new(*NonFiniteError)) })
		if !slices.Equal(p.all(), before) {
			t.Error("a refused step has changed the state")
		}
	})
}

// wrongSums is a backend whose sums are wrong, like those of a broken card.
type wrongSums struct{ kernels.Backend }

func (b wrongSums) SumSquares(out, x kernels.Buffer, n int) { b.Upload(out, []float64{math.Inf(1)}) }

// A non-finite norm is an error even if no gradient explains it: a step that did not happen is not ignored.
func TestANormThatNoGradientExplains(t *testing.T) {
	p := newProblem(t, wrongSums{kerneltest.NewReference()}, draws(1, 3), Defaults())
	u, err := p.Step(1)
	if err == nil || !strings.Contains(err.Error(), "the norm of the gradients is +Inf, but every one of them is finite") || u.Step != 0 {
		t.Errorf("step %d: %v", u.Step, err)
	}
}
