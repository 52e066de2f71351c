package objective

import (
	"math"
	"slices"
)

// Loss is the loss that is minimised. For a token with the log-probability log p under the current policy and log q when
// it was sampled, r = exp(log p − log q) is its importance ratio, A its advantage and w its weight.
type Loss struct {
	Kind
	Low, High float64 // the clip range of ratios
	Dual      float64 // dual clip of PPO: where A < 0, r·A is bounded below by Dual·A; 0: no bound

	KL        float64 // coefficient of the divergence from the reference policy; 0: none
	Estimator         // how that divergence is estimated
	Entropy   float64 // coefficient of the entropy bonus; 0: none

	Truncation
	Cap float64 // the upper bound of the correction
}

// Kind names the surrogate loss.
type Kind string

// The kinds. clip(r) is r clamped to [Low, High].
const (
	ImportanceSampling Kind = "importance_sampling" // −Σ w·r·A
	PPO                Kind = "ppo"                 // −Σ w·min(r·A, clip(r)·A)
	CISPO              Kind = "cispo"               // −Σ w·clip(r)·A·log p, clip(r) constant
	CrossEntropy       Kind = "cross_entropy"       // −Σ w·A·log p
	GSPO               Kind = "gspo"                // PPO with one ratio for all tokens of a sequence: the geometric mean of theirs
	GSPOToken          Kind = "gspo_token"          // the same value as GSPO, but each token's gradient is that of its own ratio
)

// Kinds lists all kinds.
func Kinds() []Kind { return []Kind{ImportanceSampling, PPO, CISPO, CrossEntropy, GSPO, GSPOToken} }

// Clips returns the usual clip range of a kind; 0 and 0 where it has none.
func (k Kind) Clips() (low, high float64) {
	switch k {
	case PPO:
		return 0.8, 1.2
	case CISPO:
		return 0, 4
	case GSPO, GSPOToken:
		return 0.9997, 1.0004
	}
	return 0, 0
}

// Truncation is truncated importance sampling, for completions that another policy than the current one sampled. The ratio r is then
// taken against the policy at the beginning of the step (near), and near/q, bounded by Cap, becomes a factor of the weight.
type Truncation string

// The truncations.
const (
	None        Truncation = "none"     // no correction: ratios are against the policy that sampled
	PerToken    Truncation = "token"    // min(near/q, Cap) of each token
	PerSequence Truncation = "sequence" // min(Π near/q, Cap) of all tokens of the sequence
)

// Sequence is the input of a loss for one sequence, token by token, and its output.
type Sequence struct {
	LogP, Old, Advantage, Weight []float64

	Entropy []float64 // of the distribution that each token was drawn from, where Loss.Entropy is not 0
	Ref     []float64 // log-probabilities under the reference policy, where Loss.KL is not 0
	Near    []float64 // log-probabilities before the first update of the step, where there is a Truncation

	Grad []float64 // output: the derivative of the loss by each LogP
}

// TokenCounts counts, over sequences, which tokens were clipped or corrected.
type TokenCounts struct {
	Tokens          int
	Low, High, Dual int     // tokens whose gradient was changed by a clip at Low, at High, or at Dual
	Truncated       int     // tokens whose correction was above Cap
	Correction      float64 // the sum of corrections
	KL              float64 // the sum of KL estimates
}

// Of computes the loss of a sequence and writes s.Grad.
func (l *Loss) Of(s *Sequence, seen *TokenCounts) float64 {
	seen.Tokens += len(s.LogP)
	from, weights := s.Old, s.Weight
	if l.Corrects() {
		from, weights = s.Near, l.correct(s, seen)
	}
	if l.Kind == GSPO || l.Kind == GSPOToken {
		return l.whole(s, from, weights, seen) + l.regularise(s, seen)
	}
	loss := 0.0
	for t, logp := range s.LogP {
		value, slope := l.surrogate(math.Exp(logp-from[t]), logp, s.Advantage[t], seen)
		loss += weights[t] * value
		s.Grad[t] = weights[t] * slope
	}
	return loss + l.regularise(s, seen)
}

// surrogate is the loss of a token with weight 1, and its derivative by logp.
func (l *Loss) surrogate(ratio, logp, advantage float64, seen *TokenCounts) (value, slope float64) {
	clipped := min(max(ratio, l.Low), l.High)
	switch l.Kind {
	case CrossEntropy:
		return -advantage * logp, -advantage
	case CISPO:
		if clipped != ratio && advantage != 0 {
			seen.clip(ratio < l.Low)
		}
		return -clipped * advantage * logp, -clipped * advantage
	case ImportanceSampling:
		return -ratio * advantage, -ratio * advantage
	}
	if l.Dual > 0 && advantage < 0 && ratio > l.Dual {
		seen.Dual++
		return -l.Dual * advantage, 0
	}
	if clipped*advantage < ratio*advantage {
		seen.clip(ratio < l.Low)
		return -clipped * advantage, 0
	}
	return -ratio * advantage, -ratio * advantage
}

func (s *TokenCounts) clip(low bool) {
	if low {
		s.Low++
	} else {
		s.High++
	}
}

// whole is the surrogate loss of GSPO, where a sequence has one ratio.
func (l *Loss) whole(s *Sequence, from, weights []float64, seen *TokenCounts) (loss float64) {
	n, sum := float64(len(s.LogP)), 0.0
	for t, logp := range s.LogP {
		sum += logp - from[t]
	}
	ratio, pull := math.Exp(sum/n), 0.0
	for t, a := range s.Advantage {
		value, slope := l.surrogate(ratio, 0, a, seen)
		loss += weights[t] * value
		s.Grad[t] = weights[t] * slope
		pull += s.Grad[t]
	}
	if l.Kind == GSPO { // the ratio depends on every token's log-probability, each by 1/n
		for t := range s.Grad {
			s.Grad[t] = pull / n
		}
	}
	return loss
}

// Corrects reports whether there is a truncated correction, so that ratios are against the near policy.
func (l *Loss) Corrects() bool { return l.Truncation == PerToken || l.Truncation == PerSequence }

// correct returns the weights of the tokens, times their truncated corrections.
func (l *Loss) correct(s *Sequence, seen *TokenCounts) []float64 {
	weights := slices.Clone(s.Weight)
	sum := 0.0
	for t, near := range s.Near {
		sum += near - s.Old[t]
	}
	for t, near := range s.Near {
		c := math.Exp(near - s.Old[t])
		if l.Truncation == PerSequence {
			c = math.Exp(sum)
		}
		if c > l.Cap {
			seen.Truncated++
			c = l.Cap
		}
		seen.Correction += c
		weights[t] *= c
	}
	return weights
}

// Plain reports whether the loss is just a Kind with its clip range, without any extra term.
func (l *Loss) Plain() bool { return l.Dual == 0 && l.KL == 0 && l.Entropy == 0 && !l.Corrects() }
