package objective

import "math"

// Estimator is how the divergence of the policy from the reference is told from drawn tokens: with d = log p − log ref of a
// token, the mean over tokens of p is KL(p ‖ ref) for each.
type Estimator string

// The estimators.
const (
	K1 Estimator = "k1" // d: right on average, and may be below 0
	K2 Estimator = "k2" // ½ d²: near, and its gradient is right on average
	K3 Estimator = "k3" // exp(−d) − 1 + d: right on average, and never below 0
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

// regularise adds the divergence from the reference, and the entropy, to loss and gradient.
//
// The entropy H of a distribution is known exactly, but not its gradient, which would take a second pass over all logits.
// What is added is right on average: where token a was drawn from q, p/q·(log p(a) + H)·∇log p(a) has the mean −∇H, and H as
// a baseline makes it small wherever the token says little.
func (l *Loss) regularise(s *Sequence, seen *Seen) (loss float64) {
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
