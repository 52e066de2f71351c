package objective

import "math"

// Preference is the loss of a pair of answers to one prompt, one chosen and one rejected (direct preference optimisation). With
// the log-probabilities of whole answers, h = (log p − log ref of the chosen) − (the same of the rejected).
type Preference struct {
	Beta      float64 // how strongly the policy is held to the reference
	Squared   bool    // IPO's (h − 1/(2β))² in place of −log σ(β·h)
	Smoothing float64 // label smoothing of −log σ: the share of pairs assumed to be labelled the wrong way round
}

// Of is the loss of a pair, and its derivative by h.
func (p Preference) Of(h float64) (loss, slope float64) {
	if p.Squared {
		d := h - 1/(2*p.Beta)
		return d * d, 2 * d
	}
	m, e := p.Beta*h, p.Smoothing
	return (1-e)*softplus(-m) + e*softplus(m), p.Beta * (e*sigmoid(m) - (1-e)*sigmoid(-m))
}

// softplus is log(1 + exp(x)), which is −log σ(−x).
func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

func sigmoid(x float64) float64 {
	if x < 0 {
		e := math.Exp(x)
		return e / (1 + e)
	}
	return 1 / (1 + math.Exp(-x))
}
