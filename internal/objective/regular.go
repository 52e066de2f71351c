package objective

import "math"

// Estimator is how the divergence KL(p ‖ ref) of the policy from the reference is estimated from sampled tokens, with d =
// log p − log ref of a token.
type Estimator string

// The estimators.
const (
	K1 Estimator = "k1" // d: unbiased, but may be negative
	K2 Estimator = "k2" // ½ d²: biased, but its gradient is unbiased
	K3 Estimator = "k3" // exp(−d) − 1 + d: unbiased, and never negative
)

// Of is the estimate and its derivative by logp.
func (e Estimator) Of(logp, ref float64) (value, slope float64) {
	d := logp - ref
	switch e {
	case K2:
		return d * d / 2, d
	case K3:
		return math.Expm1(-d) + d, -math.Expm1(-d)
	}
	return d, 1
}

// regularise adds the KL term and the entropy bonus to loss and gradient.
//
// The entropy H of a distribution is known exactly, but not its gradient, which would take a second pass over all logits. An
// unbiased estimate is added instead: for a token a drawn from q, p/q·(log p(a) + H)·∇log p(a) has the mean −∇H. H serves as
// the baseline that keeps its variance small.
func (l *Loss) regularise(s *Sequence, seen *TokenCounts) (loss float64) {
	for t, logp := range s.LogP {
		if l.KL > 0 {
			value, slope := l.Estimator.Of(logp, s.Ref[t])
			seen.KL += value
			loss += l.KL * s.Weight[t] * value
			s.Grad[t] += l.KL * s.Weight[t] * slope
		}
		if l.Entropy != 0 {
			ratio := math.Exp(logp - s.Old[t])
			loss -= l.Entropy * s.Weight[t] * s.Entropy[t]
			s.Grad[t] += l.Entropy * s.Weight[t] * ratio * (logp + s.Entropy[t])
		}
	}
	return loss
}
