package objective

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// random is a sequence of n tokens with all inputs of losses.
func random(r *rand.Rand, n int) *Sequence {
	draw := func(scale, shift float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = scale*r.NormFloat64() + shift
		}
		return x
	}
	s := &Sequence{LogP: draw(0.5, -1.5), Advantage: draw(1, 0), Weight: draw(0, 0), Entropy: draw(0.1, 1), Grad: make([]float64, n)}
	for i := range s.Weight {
		s.Weight[i] = 0.1 + r.Float64()
	}
	s.Old, s.Ref, s.Near = draw(0.4, -1.5), draw(0.5, -1.5), draw(0.4, -1.5)
	return s
}

// slope requires that the gradient of a loss is the derivative of a formula of log-probabilities.
func slope(t *testing.T, s *Sequence, formula func(logp []float64) float64) {
	t.Helper()
	const h = 1e-6
	for i := range s.LogP {
		up, down := slices.Clone(s.LogP), slices.Clone(s.LogP)
		up[i] += h
		down[i] -= h
		require.InDelta(t, (formula(up)-formula(down))/(2*h), s.Grad[i], 1e-6)
	}
}

// held checks the value and the gradient of a loss against a formula, on many random sequences.
func held(t *testing.T, l Loss, formula func(s *Sequence, logp []float64) float64) (seen TokenCounts) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		s := random(r, 1+r.IntN(6))
		require.InDelta(t, formula(s, s.LogP), l.Of(s, &seen), 1e-9)
		slope(t, s, func(logp []float64) float64 { return formula(s, logp) })
	}
	return seen
}

func clamp(x, low, high float64) float64 { return math.Max(low, math.Min(high, x)) }

func TestDualClip(t *testing.T) {
	seen := held(t, Loss{Kind: PPO, Low: 0.8, High: 1.2, Dual: 1.5}, func(s *Sequence, logp []float64) (sum float64) {
		for i := range logp {
			ratio, a := math.Exp(logp[i]-s.Old[i]), s.Advantage[i]
			surrogate := math.Min(ratio*a, clamp(ratio, 0.8, 1.2)*a)
			if a < 0 {
				surrogate = math.Max(surrogate, 1.5*a)
			}
			sum -= s.Weight[i] * surrogate
		}
		return sum
	})
	require.Positive(t, seen.Low)
	require.Positive(t, seen.High)
	require.Positive(t, seen.Dual)
}

// Truncated importance ratios are constants of the policy before the step.
func TestTruncatedImportanceSampling(t *testing.T) {
	for _, truncation := range []Truncation{PerToken, PerSequence} {
		l := Loss{Kind: PPO, Low: 0.8, High: 1.2, Truncation: truncation, Cap: 1.3}
		seen := held(t, l, func(s *Sequence, logp []float64) (sum float64) {
			all := 1.0
			for i := range logp {
				all *= math.Exp(s.Near[i] - s.Old[i])
			}
			for i := range logp {
				correction := math.Exp(s.Near[i] - s.Old[i])
				if truncation == PerSequence {
					correction = all
				}
				ratio, a := math.Exp(logp[i]-s.Near[i]), s.Advantage[i]
				sum -= s.Weight[i] * math.Min(correction, 1.3) * math.Min(ratio*a, clamp(ratio, 0.8, 1.2)*a)
			}
			return sum
		})
		require.Positive(t, seen.Truncated)
		require.Less(t, seen.Correction, 1.3*float64(seen.Tokens))
	}
}

func TestDivergences(t *testing.T) {
	for estimator, of := range map[Estimator]func(logp, ref float64) float64{
		K1: func(logp, ref float64) float64 { return logp - ref },
		K2: func(logp, ref float64) float64 { return math.Pow(logp-ref, 2) / 2 },
		K3: func(logp, ref float64) float64 { return math.Exp(ref-logp) - (ref - logp) - 1 },
	} {
		seen := held(t, Loss{Kind: CrossEntropy, KL: 0.3, Estimator: estimator}, func(s *Sequence, logp []float64) (sum float64) {
			for i := range logp {
				sum += s.Weight[i] * (0.3*of(logp[i], s.Ref[i]) - s.Advantage[i]*logp[i])
			}
			return sum
		})
		require.NotZero(t, seen.KL)
	}
}

// The means of k1 and k3 over tokens drawn from p are KL(p ‖ ref), and the gradient of k2 is that of the divergence.
func TestDivergencesOnAverage(t *testing.T) {
	logits, reference := []float64{0.3, -1, 2, 0}, softmax([]float64{-0.2, 1, 0.5, 0.1})
	p := softmax(logits)
	kl := func(logits []float64) (sum float64) {
		for a, p := range softmax(logits) {
			sum += p * math.Log(p/reference[a])
		}
		return sum
	}
	var k1, k3 float64
	gradient := make([]float64, len(p))
	for a := range p {
		one, _ := K1.Of(math.Log(p[a]), math.Log(reference[a]))
		three, _ := K3.Of(math.Log(p[a]), math.Log(reference[a]))
		_, slope := K2.Of(math.Log(p[a]), math.Log(reference[a]))
		k1, k3 = k1+p[a]*one, k3+p[a]*three
		for j := range gradient {
			gradient[j] += p[a] * slope * (chosen(a, j) - p[j])
		}
	}
	require.InDelta(t, kl(logits), k1, 1e-12)
	require.InDelta(t, kl(logits), k3, 1e-12)
	differ(t, logits, gradient, kl)
}

// The entropy bonus has the mean gradient of the entropy, over tokens drawn from the policy or from another one.
func TestEntropyOnAverage(t *testing.T) {
	logits := []float64{0.3, -1, 2, 0}
	entropy := func(logits []float64) (sum float64) {
		for _, p := range softmax(logits) {
			sum -= p * math.Log(p)
		}
		return sum
	}
	p := softmax(logits)
	for _, q := range [][]float64{p, softmax([]float64{1, 0, 0.5, -1})} {
		gradient, l, seen := make([]float64, len(p)), Loss{Kind: CrossEntropy, Entropy: 0.7}, TokenCounts{}
		for a := range p { // drawn with probability q
			s := &Sequence{LogP: []float64{math.Log(p[a])}, Old: []float64{math.Log(q[a])}, Advantage: []float64{0}, Weight: []float64{2},
				Entropy: []float64{entropy(logits)}, Grad: make([]float64, 1)}
			require.InDelta(t, -0.7*2*entropy(logits), l.Of(s, &seen), 1e-12)
			for j := range gradient {
				gradient[j] += q[a] * s.Grad[0] * (chosen(a, j) - p[j])
			}
		}
		differ(t, logits, gradient, func(logits []float64) float64 { return -0.7 * 2 * entropy(logits) })
	}

	// If all tokens are equally likely, the entropy is maximal, and no token has a gradient.
	l, seen := Loss{Kind: CrossEntropy, Entropy: 1}, TokenCounts{}
	s := &Sequence{LogP: []float64{-math.Log(4)}, Old: []float64{-1}, Advantage: []float64{0}, Weight: []float64{1},
		Entropy: []float64{math.Log(4)}, Grad: make([]float64, 1)}
	l.Of(s, &seen)
	require.InDelta(t, 0, s.Grad[0], 1e-12)
}

func softmax(logits []float64) []float64 {
	p, sum := make([]float64, len(logits)), 0.0
	for i, z := range logits {
		p[i] = math.Exp(z)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// chosen is 1 if a = j.
func chosen(a, j int) float64 {
	if a == j {
		return 1
	}
	return 0
}

// differ requires that a gradient with respect to logits is that of f.
func differ(t *testing.T, logits, gradient []float64, f func(logits []float64) float64) {
	t.Helper()
	const h = 1e-6
	for j := range logits {
		up, down := slices.Clone(logits), slices.Clone(logits)
		up[j] += h
		down[j] -= h
		require.InDelta(t, (f(up)-f(down))/(2*h), gradient[j], 1e-8)
	}
}

// GSPO is PPO with the geometric mean of a sequence's ratios, also with a divergence from the reference.
func TestGSPOIsOfAWholeSequence(t *testing.T) {
	seen := held(t, Loss{Kind: GSPO, Low: 0.9, High: 1.1, KL: 0.3, Estimator: K2}, func(s *Sequence, logp []float64) (sum float64) {
		product := 1.0
		for i := range logp {
			product *= math.Exp(logp[i] - s.Old[i])
		}
		ratio := math.Pow(product, 1/float64(len(logp)))
		for i := range logp {
			a := s.Advantage[i]
			sum += s.Weight[i] * (0.3*math.Pow(logp[i]-s.Ref[i], 2)/2 - math.Min(ratio*a, clamp(ratio, 0.9, 1.1)*a))
		}
		return sum
	})
	require.Positive(t, seen.Low)
	require.Positive(t, seen.High)
}

// GSPO-token equals GSPO if all tokens of a sequence have the same advantage, and not otherwise.
func TestGSPOTokenIsGSPOWhereTokensAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var seen TokenCounts
	for _, same := range []bool{true, false} {
		s := random(r, 5)
		for i := range s.Advantage {
			s.Weight[i] = 0.2
			if same {
				s.Advantage[i] = -0.5
			}
		}
		one := Loss{Kind: GSPO, Low: 0, High: 10}
		value := one.Of(s, &seen)
		whole := slices.Clone(s.Grad)
		token := Loss{Kind: GSPOToken, Low: 0, High: 10}
		require.InDelta(t, value, token.Of(s, &seen), 1e-12)
		for i := range whole {
			require.Equal(t, same, math.Abs(whole[i]-s.Grad[i]) < 1e-12)
		}
	}
}

// The statistics of a loss: on which side ratios were clipped, if the advantage has an effect, and the importance corrections.
func TestLossesTellWhatTheyDid(t *testing.T) {
	told := func(l Loss, ratios, advantages []float64) (seen TokenCounts) {
		n := len(ratios)
		s := Sequence{LogP: make([]float64, n), Old: make([]float64, n), Near: make([]float64, n), Advantage: advantages,
			Weight: slices.Repeat([]float64{1}, n), Grad: make([]float64, n)}
		for i, r := range ratios {
			s.LogP[i], s.Near[i] = math.Log(r), math.Log(r)
		}
		l.Of(&s, &seen)
		return seen
	}
	ratios, advantages := []float64{0.5, 0.5, 0.6, 1.5, 4, 4, 1}, []float64{-1, 1, -1, 1, -1, 0, 1}
	require.Equal(t, TokenCounts{Tokens: 7, Low: 2, High: 1, Dual: 1}, told(Loss{Kind: PPO, Low: 0.8, High: 1.2, Dual: 3}, ratios, advantages))
	require.Equal(t, TokenCounts{Tokens: 7, Low: 3, High: 2}, told(Loss{Kind: CISPO, Low: 0.8, High: 1.2}, ratios, advantages))
	seen := told(Loss{Kind: ImportanceSampling, Truncation: PerToken, Cap: 1.3}, ratios, advantages)
	require.Equal(t, 3, seen.Truncated)
	require.InDelta(t, 0.5+0.5+0.6+3*1.3+1, seen.Correction, 1e-12)
	seen = told(Loss{Kind: PPO, Low: 0.8, High: 1.2, Truncation: PerToken, Cap: 1}, []float64{1, 1}, []float64{1, -1})
	require.Zero(t, seen.Truncated, "a correction of 1 is not cut to 1: completions of the policy itself have it")
}
