package optim

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
)

// A step that would make a number infinite does not happen, for whatever reason; the next one with valid settings has the usual result.
func TestAStepThatWouldOverflow(t *testing.T) {
	const n = 100
	plain := Config{Beta1: 0.9, Beta2: 0.95, Eps: 1e-12}
	for _, c := range []struct {
		name   string
		cfg    Config
		rate   float64
		bad    float32 // the last gradient
		square bool    // the gradient is the cause
	}{
		{"rate", plain, 1e39, 1, false},
		{"decay", Config{Beta1: 0.9, Beta2: 0.95, Eps: 1e-12, WeightDecay: 1e25}, 1e15, 1, false},
		{"square", plain, 1e-3, 9e19, true},
		{"negative", plain, 1e-3, -3e38, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, b kernels.Backend) {
				p := newProblem(t, b, draws(1, n), plain)
				p.step(draws(2, n), 0.1)
				before, g := p.all(), draws(3, n)
				if err := p.Configure(c.cfg); err != nil {
					t.Fatal(err)
				}
				g[n-1] = c.bad
				p.b.Upload(p.grads, g)
				u, err := p.Step(c.rate)
				var gradient *NonFiniteError
				var over *OverflowError
				switch {
				case err == nil || u != (Update{}) || p.Steps() != 1:
					t.Fatalf("%v after %d steps, %v", u, p.Steps(), err)
				case c.square && (!errors.As(err, &gradient) || gradient.Index != n-1 || gradient.Value != c.bad ||
					!strings.Contains(err.Error(), "whose square is infinite")):
					t.Errorf("%v", err)
				case !c.square && (!errors.As(err, &over) || !badinput.Is(err) || !strings.Contains(err.Error(), "learning_rate: found 1e+")):
					t.Errorf("%v", err)
				}
				if !slices.Equal(before, p.all()) {
					t.Error("a refused step has changed the state")
				}
				if err := p.Configure(plain); err != nil {
					t.Fatal(err)
				}
				q := newProblem(t, b, draws(1, n), plain)
				q.step(draws(2, n), 0.1)
				p.step(draws(4, n), 0.1)
				q.step(draws(4, n), 0.1)
				if !slices.Equal(p.all(), q.all()) {
					t.Error("the step after a refused one differs")
				}
			})
		})
	}
}

// Absurd learning rates with finite results are allowed: the result is the kernel's.
func TestARateThatIsHuge(t *testing.T) {
	onEach(t, func(t *testing.T, b kernels.Backend) {
		p := newProblem(t, b, draws(1, 100), Defaults())
		p.step(draws(2, 100), 1e30)
		q := newProblem(t, b, draws(1, 100), Defaults())
		q.b.Upload(q.grads, draws(2, 100))
		q.improve(q.cfg.kernelStep(1e30, Update{Step: 1, ClipScale: 1}))
		if !slices.Equal(p.all(), q.all()) || p.get(p.params)[0] > -1e29 && p.get(p.params)[0] < 1e29 {
			t.Errorf("%v", p.get(p.params)[:3])
		}
	})
}

// The bound of parameters grows with every step although they may not: it is measured again before a step is tried.
func TestTheBoundIsMeasuredAgain(t *testing.T) {
	onEach(t, func(t *testing.T, b kernels.Backend) {
		p := newProblem(t, b, draws(1, 100), Defaults())
		p.step(draws(2, 100), 0.1)
		p.reach.params = mostParam
		p.step(draws(3, 100), 0.1)
		if !p.reach.known || p.reach.params > 1e20 {
			t.Errorf("%+v", p.reach)
		}
	})
}

// A saved state with NaN is refused.
func TestAStateOfNoNumbers(t *testing.T) {
	onEach(t, func(t *testing.T, b kernels.Backend) {
		const n = chunk + 30 // the last ones are in a second chunk
		p := newProblem(t, b, make([]float32, n), Defaults())
		bad := make([]float32, n)
		bad[n-3] = float32(math.Inf(1))
		p.b.Upload(p.v, bad)
		path := filepath.Join(t.TempDir(), "state")
		if err := p.SaveState(path); err != nil {
			t.Fatal(err)
		}
		err := p.LoadState(path)
		if !badinput.Is(err) || !strings.Contains(err.Error(), fmt.Sprintf(`tensor "v": element %d is +Inf`, n-3)) {
			t.Errorf("%v", err)
		}
	})
}

// If parameters were written between two steps, and this was announced, a step that would overflow from there does not happen.
func TestParametersThatWereWritten(t *testing.T) {
	onEach(t, func(t *testing.T, b kernels.Backend) {
		cfg := Defaults()
		cfg.WeightDecay = 3
		p := newProblem(t, b, []float32{1, 2}, cfg)
		p.step([]float32{1, 1}, 1)
		p.b.Upload(p.params, []float32{3e38, 2})
		p.ParamsWritten()
		before := p.all()
		p.b.Upload(p.grads, []float32{1, 1})
		var over *OverflowError
		if _, err := p.Step(1); !errors.As(err, &over) || over.Tensor != "tensor0" {
			t.Errorf("%v", err)
		}
		if !slices.Equal(before, p.all()) || p.Steps() != 1 {
			t.Errorf("a refused step has changed the state: %v", p.all())
		}
	})
}

// Numbers that are large already count: parameters, with decay or without, and moments, the more the fewer steps are behind them.
func TestAStepFromLargeNumbers(t *testing.T) {
	const n = 20
	plain := Config{Beta1: 0.9, Beta2: 0.95, Eps: 1e-12, WeightDecay: 100}
	slow := Config{Beta1: 0.999, Beta2: 0.95, Eps: 1e-12}
	still := Config{Beta1: 0.9, Beta2: 0.95, Eps: 1}
	for _, c := range []struct {
		name     string
		cfg      Config
		moments  bool    // the moments are large; otherwise the parameters
		number   float32 // the last one
		gradient float32 // each
		rate     float64
	}{
		{"parameters that decay", plain, false, 9e36, 0, 1},
		{"the largest parameter", still, false, -math.MaxFloat32, 1, 1e35},
		{"moments", plain, true, 1e17, 0, 1e10},
		{"young moments", slow, true, 1e17, 0, 1e7},
	} {
		onEach(t, func(t *testing.T, b kernels.Backend) {
			p := newProblem(t, b, draws(1, n), c.cfg)
			at, numbers := p.params, draws(2, n)
			if c.moments {
				at = p.m
			}
			numbers[n-1] = c.number
			b.Upload(at, numbers)
			b.Upload(p.grads, slices.Repeat([]float32{c.gradient}, n))
			var over *OverflowError
			if _, err := p.Step(c.rate); !errors.As(err, &over) {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
}

// A number that would overflow is reported by its index in the slab, in whatever chunk: the first of several, unless a later gradient is
// the cause.
func TestWhereAStepWouldOverflow(t *testing.T) {
	const n = 2*pieceLen + 30
	onEach(t, func(t *testing.T, b kernels.Backend) {
		p := newProblem(t, b, slices.Repeat([]float32{-1e38}, n), Defaults())
		step := func(gradients map[int]float32) error {
			g := make([]float32, n)
			for at, x := range gradients {
				g[at] = x
			}
			p.b.Upload(p.grads, g)
			_, err := p.Step(3e38)
			return err
		}
		var over *OverflowError
		first := fmt.Sprintf("tensor%d", (pieceLen+7)/10)
		if err := step(map[int]float32{pieceLen + 7: 1, n - 1: 1}); !errors.As(err, &over) || over.Tensor != first {
			t.Errorf("got %v, expected %s", err, first)
		}
		var cause *NonFiniteError
		err := step(map[int]float32{pieceLen + 7: 1, n - 2: 9e19})
		if want := (NonFiniteError{fmt.Sprintf("tensor%d", (n-2)/10), n - 2, 9e19}); !errors.As(err, &cause) || *cause != want {
			t.Errorf("got %+v, expected %+v", err, want)
		}
	})
}
