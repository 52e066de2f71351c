package objective

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/stats"
)

// Mean returns R − mean(R).
func Mean(rewards []float64) []float64 {
	a := make([]float64, len(rewards))
	sum := 0.0
	for _, r := range rewards {
		sum += r
	}
	mean := sum / float64(len(rewards))
	for i, r := range rewards {
		a[i] = r - mean
	}
	return a
}

// Std returns Mean divided by the standard deviation of the rewards. If these are equal up to rounding, it does not amplify the noise.
func Std(rewards []float64) []float64 {
	a := Mean(rewards)
	if stats.Negligible(a) {
		return a
	}
	if stats.Rounding(a, rewards) {
		return make([]float64, len(a))
	}
	squares := 0.0
	for _, x := range a {
		squares += x * x
	}
	std := math.Sqrt(squares / float64(len(a)))
	for i := range a {
		a[i] /= std
	}
	return a
}

// LeaveOneOut returns each reward less the mean of the other rewards of its group, and 0 for a group of one.
func LeaveOneOut(rewards []float64) []float64 {
	a := Mean(rewards)
	n := float64(len(rewards))
	for i := range a {
		a[i] *= n / max(1, n-1)
	}
	return a
}

// Comparison says how rewards become advantages.
type Comparison struct {
	Shaping // how rewards are shaped before they are compared
	// Within computes the advantages of one group. If it is nil, the returns of all tokens of the step are normalised together to a mean
	// of 0 and a standard deviation of 1; with Baseline, the mean of its group is subtracted from each reward first.
	Within   func(rewards []float64) []float64
	Baseline bool
	Bound    float64 // advantages are clipped to [−Bound, Bound]; 0: no bound
}

// Shaping changes rewards before they become advantages.
type Shaping struct {
	Clip    float64 // rewards are clipped to [−Clip, Clip]; 0: no bound
	Longest int     // the maximum length of a completion, in tokens
	Buffer  int     // length of the interval up to Longest over which the penalty rises linearly from 0; 0: no penalty
	Penalty float64 // subtracted from the reward of a completion of length Longest
	KL      float64 // coefficient of the KL penalty against the reference policy, which is subtracted token by token; 0: none
}

// Group is the completions of one prompt.
type Group struct {
	Name    string // of the problem, for error messages
	Samples []Sample
}

// Sample is one completion.
type Sample struct {
	Reward float64
	Tokens int
	KL     []float64 // the KL estimate of each token; nil where Shaping.KL is 0
}

// Advantages are the advantages of a step.
type Advantages struct {
	Samples [][]float64   // by group and completion; the mean over its tokens where these differ
	Tokens  [][][]float64 // by group, completion and token; nil where all tokens of a completion have the same

	Overlong float64 // the mean penalty for length
	Clipped  float64 // the share of rewards that were clipped
	Bounded  float64 // the share of advantages that were clipped
}

// Overlong is DAPO's soft penalty for a completion of this length: 0 up to the buffer, rising to Penalty at its end.
func (s Shaping) Overlong(tokens int) float64 {
	if s.Buffer == 0 {
		return 0
	}
	return s.Penalty * min(1, max(0, float64(tokens-(s.Longest-s.Buffer))/float64(s.Buffer)))
}

// reward is the shaped reward of a completion, without the KL penalty.
func (s Shaping) reward(x Sample) float64 {
	r := x.Reward
	if s.Clip > 0 {
		r = bounded(r, s.Clip)
	}
	return r - s.Overlong(x.Tokens)
}

func bounded(x, most float64) float64 { return min(most, max(-most, x)) }

// Of computes the advantages of all groups.
func (c Comparison) Of(groups []Group) (a Advantages, err error) {
	if c.Within == nil {
		a = c.batch(groups)
	} else if a.Samples, err = c.within(groups); err != nil {
		return a, err
	}
	var overlong, clipped, beyond []float64
	for k, g := range groups {
		for i, x := range g.Samples {
			overlong = append(overlong, c.Overlong(x.Tokens))
			clipped = append(clipped, indicator(c.Shaping.Clip > 0 && math.Abs(x.Reward) > c.Shaping.Clip))
			beyond = append(beyond, c.clipAdvantages(&a, k, i)...)
		}
	}
	a.Overlong, a.Clipped, a.Bounded = stats.Mean(overlong), stats.Mean(clipped), stats.Mean(beyond)
	return a, nil
}

// clipAdvantages clips the advantages of a completion to the bound. For each it returns 1 if it was beyond, else 0.
func (c Comparison) clipAdvantages(a *Advantages, group, sample int) (beyond []float64) {
	x := a.Samples[group][sample : sample+1]
	if a.Tokens != nil {
		x = a.Tokens[group][sample]
	}
	for i := range x {
		beyond = append(beyond, indicator(c.Bound > 0 && math.Abs(x[i]) > c.Bound))
		if c.Bound > 0 {
			x[i] = bounded(x[i], c.Bound)
		}
	}
	a.Samples[group][sample] = stats.Mean(x)
	return beyond
}

func indicator(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// within applies Within to each group. The KL penalty of a completion is the sum over its tokens.
func (c Comparison) within(groups []Group) ([][]float64, error) {
	all := make([][]float64, len(groups))
	for k, g := range groups {
		if len(g.Samples) == 0 {
			continue
		}
		rewards := make([]float64, len(g.Samples))
		for i, x := range g.Samples {
			rewards[i] = c.reward(x)
			for _, kl := range x.KL {
				rewards[i] -= c.KL * kl
			}
		}
		all[k] = slices.Clone(c.Within(rewards)) // a caller's function may reuse its slice for the next group
		if n := len(all[k]); n != len(rewards) {
			return nil, fmt.Errorf("problem %s: %d advantages for %d rewards, expected one for each", g.Name, n, len(rewards))
		}
		for i, x := range all[k] {
			if x-x != 0 {
				return nil, fmt.Errorf("problem %s: an advantage of %v for a reward of %v, expected a number", g.Name, x, rewards[i])
			}
		}
	}
	return all, nil
}
