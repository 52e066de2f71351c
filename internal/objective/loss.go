package objective

import (
	"math"
	"slices"
)

// Loss is what is minimised. For a token with the log-probability log p now and log q when it was drawn, r = exp(log p −
// log q) is its importance ratio, A its advantage and w its weight.
type Loss struct {
	Kind
	Low, High float64 // the clip range, of ratios
	Dual      float64 // with PPO: what r·A counts for at the most where A is below 0, as a ratio; 0: no bound

	KL        float64 // the coefficient of the divergence from the reference; 0: none
	Estimator         // of that
	Entropy   float64 // the coefficient of the entropy, which is added; 0: none

	Truncation
	Cap float64 // the greatest correction
}

// Kind is the term of the surrogate.
type Kind string

// The kinds. clip holds a ratio in [Low, High].
const (
	ImportanceSampling Kind = "importance_sampling" // −Σ w·r·A
	PPO                Kind = "ppo"                 // −Σ w·min(r·A, clip(r)·A)
	CISPO              Kind = "cispo"               // −Σ w·clip(r)·A·log p, clip(r) constant
	CrossEntropy       Kind = "cross_entropy"       // −Σ w·A·log p
	GSPO               Kind = "gspo"                // PPO with the geometric mean of a sequence's ratios for each of its tokens
	GSPOToken          Kind = "gspo_token"          // of the same value, differentiated as if the ratio were the token's own
)

// Kinds are all of them.
func Kinds() []Kind { return []Kind{ImportanceSampling, PPO, CISPO, CrossEntropy, GSPO, GSPOToken} }

// Clips is the usual range of a kind; 0 and 0 where it has none.
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

// Truncation is what is corrected for where completions are not of the policy that the step begins with: the ratio is
// taken to what that policy, the near one, said, and its own ratio to what drew them becomes a weight of at most Cap.
type Truncation string

// The truncations.
const (
	None        Truncation = "none"     // ratios are to what drew the completions
	PerToken    Truncation = "token"    // min(near/q, Cap) of the token
	PerSequence Truncation = "sequence" // min(Π near/q, Cap) of all tokens of the sequence
)

// Sequence is what a loss knows of a sequence, token by token.
type Sequence struct {
	LogP, Old, Advantage, Weight []float64

	Entropy []float64 // of the distributions that tokens are of, where Loss.Entropy is not 0
	Ref     []float64 // log-probabilities by the reference, where Loss.KL is not 0
	Near    []float64 // log-probabilities before the first update of the step, with a Truncation

	Grad []float64 // to be written: the derivative of the loss by each LogP
}

// Seen counts, over sequences, what a loss did to tokens.
type Seen struct {
	Tokens          int
	Low, High, Dual int     // whose gradient the clip range changed
	Truncated       int     // whose correction was above Cap
	Correction      float64 // the sum of corrections
	KL              float64 // the sum of estimates
}

// Of is the loss of a sequence.
func (l *Loss) Of(s *Sequence, seen *Seen) float64 {
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

// surrogate is the loss of a token of weight 1, and its derivative by logp.
func (l *Loss) surrogate(ratio, logp, advantage float64, seen *Seen) (value, slope float64) {
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

func (s *Seen) clip(low bool) {
	if low {
		s.Low++
	} else {
		s.High++
	}
}

// whole is the loss of a sequence with one ratio.
func (l *Loss) whole(s *Sequence, from, weights []float64, seen *Seen) (loss float64) {
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
	if l.Kind == GSPO { // each log-probability moves the ratio of all tokens, by its share
		for t := range s.Grad {
			s.Grad[t] = pull / n
		}
	}
	return loss
}

// Corrects tells whether ratios are to the near policy.
func (l *Loss) Corrects() bool { return l.Truncation == PerToken || l.Truncation == PerSequence }

// correct are the weights with what the tokens of the sequence are corrected by.
func (l *Loss) correct(s *Sequence, seen *Seen) []float64 {
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

// Plain tells whether the loss is a kind with its clip range and nothing more.
func (l *Loss) Plain() bool { return l.Dual == 0 && l.KL == 0 && l.Entropy == 0 && !l.Corrects() }
