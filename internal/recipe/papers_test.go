package recipe

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
)

// numbers has a value for each token of each completion of each prompt.
type numbers [][][]float64

// batch is the data of a step, in the papers' notation.
type batch struct {
	longest        int
	R              [][]float64
	logp, old, ref numbers
}

// each calls f for every token: prompt q, completion i, token t.
func (n numbers) each(f func(q, i, t int)) {
	for q := range n {
		for i := range n[q] {
			for t := range n[q][i] {
				f(q, i, t)
			}
		}
	}
}

func (n numbers) clone() numbers {
	c := make(numbers, len(n))
	for q := range n {
		for _, tokens := range n[q] {
			c[q] = append(c[q], slices.Clone(tokens))
		}
	}
	return c
}

// tokens is Σ|o|, completions is P·G.
func (n numbers) tokens() (sum float64) { n.each(func(int, int, int) { sum++ }); return sum }
func (n numbers) completions() float64  { return float64(len(n) * len(n[0])) }

// draw makes a batch of 2 prompts and 3 completions, with ratios about spread away from 1. Numbers are exact in single precision.
func draw(r *rand.Rand, spread float64) *batch {
	b := &batch{longest: 6, R: [][]float64{{1, 0, 0.25}, {-0.5, 1, 1}}, logp: make(numbers, 2)}
	for q := range b.logp {
		for range 3 {
			b.logp[q] = append(b.logp[q], make([]float64, 1+r.IntN(b.longest)))
		}
	}
	b.old, b.ref = b.logp.clone(), b.logp.clone()
	single := func(x float64) float64 { return float64(float32(x)) }
	b.logp.each(func(q, i, t int) {
		b.logp[q][i][t] = single(-0.2 - 2*r.Float64())
		b.old[q][i][t] = single(b.logp[q][i][t] + spread*r.NormFloat64())
		b.ref[q][i][t] = single(b.logp[q][i][t] + 0.3*r.NormFloat64())
	})
	return b
}

func mean1(x []float64) (m float64) {
	for _, v := range x {
		m += v / float64(len(x))
	}
	return m
}

func std1(x []float64) float64 {
	m, squares := mean1(x), 0.0
	for _, v := range x {
		squares += (v - m) * (v - m)
	}
	return math.Sqrt(squares / float64(len(x)))
}

func clip(x, low, high float64) float64 { return math.Max(low, math.Min(high, x)) }

// ppoSurrogate is the surrogate of PPO.
func ppoSurrogate(ratio, low, high, a float64) float64 {
	return math.Min(ratio*a, clip(ratio, low, high)*a)
}

// standard is GRPO's advantage, from rewards with a length term.
func (b *batch) standard(q, i int, length func(tokens int) float64) float64 {
	R := slices.Clone(b.R[q])
	for k := range R {
		R[k] += length(len(b.logp[q][k]))
	}
	return (R[i] - mean1(R)) / std1(R)
}

func unshaped(int) float64 { return 0 }

// soft is equation 13 of DAPO, with a buffer of a fifth of the maximum length.
func (b *batch) soft(tokens int) float64 {
	Lmax, Lcache := float64(b.longest), math.Max(1, float64(b.longest/5))
	switch y := float64(tokens); {
	case y <= Lmax-Lcache:
		return 0
	case y <= Lmax:
		return (Lmax - Lcache - y) / Lcache
	}
	return -1
}

// normed normalises the returns of all tokens to mean 0 and standard deviation 1.
func (b *batch) normed(of func(q, i, t int) float64) numbers {
	var all []float64
	b.logp.each(func(q, i, t int) { all = append(all, of(q, i, t)) })
	A := b.logp.clone()
	b.logp.each(func(q, i, t int) { A[q][i][t] = (of(q, i, t) - mean1(all)) / std1(all) })
	return A
}

// sequenceRatio is s of GSPO.
func (b *batch) sequenceRatio(logp numbers, q, i int) float64 {
	sum := 0.0
	for t := range logp[q][i] {
		sum += logp[q][i][t] - b.old[q][i][t]
	}
	return math.Exp(sum / float64(len(logp[q][i])))
}

// papers are the losses as in the papers, as functions of log-probabilities: where a paper stops the gradient, those of the batch are
// used.
var papers = map[string]struct {
	spread float64
	loss   func(b *batch, logp numbers) float64
}{
	"grpo": {0.3, func(b *batch, logp numbers) (J float64) {
		logp.each(func(q, i, t int) {
			d := b.ref[q][i][t] - logp[q][i][t]
			surrogate := ppoSurrogate(math.Exp(logp[q][i][t]-b.old[q][i][t]), 0.8, 1.2, b.standard(q, i, unshaped))
			J += (surrogate - 0.04*(math.Exp(d)-d-1)) / float64(len(logp[q][i])) / logp.completions()
		})
		return -J
	}},
	"dapo": {0.3, func(b *batch, logp numbers) (J float64) {
		logp.each(func(q, i, t int) {
			J += ppoSurrogate(math.Exp(logp[q][i][t]-b.old[q][i][t]), 0.8, 1.28, b.standard(q, i, b.soft)) / logp.tokens()
		})
		return -J
	}},
	"dr_grpo": {0.3, func(b *batch, logp numbers) (J float64) {
		logp.each(func(q, i, t int) {
			A := b.R[q][i] - mean1(b.R[q])
			J += ppoSurrogate(math.Exp(logp[q][i][t]-b.old[q][i][t]), 0.8, 1.2, A) / logp.completions()
		})
		return -J
	}},
	"gspo": {4e-4, func(b *batch, logp numbers) (J float64) {
		for q := range logp {
			for i := range logp[q] {
				J += ppoSurrogate(b.sequenceRatio(logp, q, i), 1-3e-4, 1+4e-4, b.standard(q, i, unshaped)) / logp.completions()
			}
		}
		return -J
	}},
	"gspo_token": {4e-4, func(b *batch, logp numbers) (J float64) {
		logp.each(func(q, i, t int) {
			s := b.sequenceRatio(b.logp, q, i) * math.Exp(logp[q][i][t]-b.logp[q][i][t])
			J += ppoSurrogate(s, 1-3e-4, 1+4e-4, b.standard(q, i, unshaped)) / float64(len(logp[q][i])) / logp.completions()
		})
		return -J
	}},
	"cispo": {1.2, func(b *batch, logp numbers) (J float64) {
		logp.each(func(q, i, t int) {
			weight := clip(math.Exp(b.logp[q][i][t]-b.old[q][i][t]), 0, 4)
			J += weight * b.standard(q, i, b.soft) * logp[q][i][t] / logp.tokens()
		})
		return -J
	}},
	"rloo": {0.3, func(b *batch, logp numbers) (J float64) {
		R := func(q, i int) float64 {
			reward := b.R[q][i]
			for t := range b.old[q][i] {
				reward -= 0.03 * (b.old[q][i][t] - b.ref[q][i][t])
			}
			return reward
		}
		logp.each(func(q, i, t int) {
			others := 0.0
			for j := range b.R[q] {
				if j != i {
					others += R(q, j) / float64(len(b.R[q])-1)
				}
			}
			J += (R(q, i) - others) * logp[q][i][t] / logp.completions()
		})
		return -J
	}},
	"reinforce_pp": {0.3, func(b *batch, logp numbers) (J float64) {
		A := b.normed(func(q, i, t int) float64 {
			R := b.R[q][i]
			for u := t; u < len(b.old[q][i]); u++ {
				R -= 0.01 * (b.old[q][i][u] - b.ref[q][i][u])
			}
			return R
		})
		logp.each(func(q, i, t int) {
			J += ppoSurrogate(math.Exp(logp[q][i][t]-b.old[q][i][t]), 0.8, 1.2, A[q][i][t]) / logp.tokens()
		})
		return -J
	}},
	"reinforce_pp_baseline": {0.3, func(b *batch, logp numbers) (J float64) {
		A := b.normed(func(q, i, _ int) float64 { return b.R[q][i] - mean1(b.R[q]) })
		logp.each(func(q, i, t int) {
			d := logp[q][i][t] - b.ref[q][i][t]
			J += (ppoSurrogate(math.Exp(logp[q][i][t]-b.old[q][i][t]), 0.8, 1.2, A[q][i][t]) - 0.001*d*d/2) / logp.tokens()
		})
		return -J
	}},
}

// Every recipe is the objective of its paper, in value and in gradient.
func TestRecipesAreThoseOfThePapers(t *testing.T) {
	require.Len(t, papers, len(configs.Recipes()))
	for _, name := range configs.Recipes() {
		paper, known := papers[name]
		require.True(t, known, "%s has a formula", name)
		r := rand.New(rand.NewPCG(5, 6))
		for range 5 {
			b := draw(r, paper.spread)
			loss, gradient := b.learn(t, name)
			require.InDelta(t, paper.loss(b, b.logp), loss, 1e-6, name)
			const h = 1e-6
			b.logp.each(func(q, i, k int) {
				up, down := b.logp.clone(), b.logp.clone()
				up[q][i][k] += h
				down[q][i][k] -= h
				require.InDelta(t, (paper.loss(b, up)-paper.loss(b, down))/(2*h), gradient[q][i][k], 1e-6, "%s %d %d %d", name, q, i, k)
			})
		}
	}
}
