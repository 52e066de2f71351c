package optim

import (
	"math"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// textbook is Adam as in the paper, for all parameters, in double precision.
type textbook struct {
	p, m, v []float64
	b1, b2  float64 // powers of the betas
}

func (x *textbook) step(g []float32, lr float64, c Config) (norm float64) {
	for _, y := range g {
		norm = math.Hypot(norm, float64(y))
	}
	scale := 1.0
	if c.ClipNorm > 0 {
		scale = math.Min(1, c.ClipNorm/norm)
	}
	x.b1, x.b2 = x.b1*c.Beta1, x.b2*c.Beta2
	for i := range x.p {
		y := scale * float64(g[i])
		x.m[i] = c.Beta1*x.m[i] + (1-c.Beta1)*y
		x.v[i] = c.Beta2*x.v[i] + (1-c.Beta2)*y*y
		mean, square := x.m[i]/(1-x.b1), x.v[i]/(1-x.b2)
		x.p[i] = x.p[i]*(1-lr*c.WeightDecay) - lr*mean/(math.Sqrt(square)+c.Eps)
	}
	return norm
}

func TestAdamAgainstTextbook(t *testing.T) {
	settings := map[string]Config{
		"defaults":     Defaults(),
		"torch":        {Beta1: 0.9, Beta2: 0.999, Eps: 1e-8},
		"decay":        {Beta1: 0.9, Beta2: 0.95, Eps: 1e-12, WeightDecay: 0.1},
		"clip":         {Beta1: 0.9, Beta2: 0.95, Eps: 1e-3, ClipNorm: 5},
		"never clips":  {Beta1: 0.9, Beta2: 0.95, Eps: 1e-3, ClipNorm: 1e9},
		"no memory":    {Eps: 0.5},
		"all together": {Beta1: 0.5, Beta2: 0.7, Eps: 1e-2, WeightDecay: 0.5, ClipNorm: 1},
	}
	for name, cfg := range settings {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, b kernels.Backend) {
				const n = 77
				start := draws(1, n)
				p := newProblem(t, b, start, cfg)
				want := textbook{m: make([]float64, n), v: make([]float64, n), b1: 1, b2: 1}
				for _, x := range start {
					want.p = append(want.p, float64(x))
				}
				for step := 1; step <= 6; step++ {
					g, lr := draws(uint64(10+step), n), 0.01*float64(step)
					u := p.step(g, lr)
					norm := want.step(g, lr, cfg)
					if u.Step != step || p.Steps() != step || math.Abs(u.GradNorm/norm-1) > 1e-12 {
						t.Fatalf("step %d: %+v, expected norm %v", step, u, norm)
					}
					if clip := math.Min(1, cfg.ClipNorm/norm); cfg.ClipNorm > 0 && math.Abs(u.ClipScale-clip) > 1e-12 ||
						cfg.ClipNorm == 0 && u.ClipScale != 1 {
						t.Fatalf("step %d: clipped by %v, expected %v", step, u.ClipScale, clip)
					}
					for i, got := range p.get(p.params) {
						if math.Abs(float64(got)-want.p[i]) > 2e-6*(math.Abs(want.p[i])+lr) {
							t.Fatalf("step %d: parameter %d is %v, expected %v", step, i, got, want.p[i])
						}
					}
				}
			})
		})
	}
}

// The moments decay by the betas in single precision, and are corrected by the same to the bit: after one step the corrected mean is the
// gradient.
func TestCorrectionsAreOfTheBetasOfTheKernel(t *testing.T) {
	for _, c := range []Config{Defaults(), {Beta1: 0.95, Beta2: 0.999, Eps: 1e-8}} {
		s := c.kernelStep(0.1, Update{Step: 1, ClipScale: 1})
		if s.Correction1 != 1-s.Beta1 || s.Correction2 != 1-s.Beta2 {
			t.Errorf("betas %v and %v are corrected by %v and %v", s.Beta1, s.Beta2, s.Correction1, s.Correction2)
		}
	}
}
