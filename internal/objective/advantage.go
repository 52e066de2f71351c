package objective

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/stats"
)

// Mean are R − mean(R).
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

// Std are Mean divided by the standard deviation of the rewards, where they differ.
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

// LeaveOneOut are R less the mean of the others, and 0 of one that is alone.
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
	Shaping // of rewards, before they are compared
	// Within compares the completions of a prompt with each other. nil: all tokens of the step are brought to a mean of 0
	// and a standard deviation of 1, with Baseline after the mean of its group was taken off each reward.
	Within   func(rewards []float64) []float64
	Baseline bool
	Bound    float64 // of advantages, on both sides; 0: none
}

// Shaping is what becomes of the reward that a completion was given.
type Shaping struct {
	Clip    float64 // bounds the reward on both sides; 0: no bound
	Longest int     // tokens that a completion may have
	Buffer  int     // the last of these, over which Penalty rises; 0: no penalty
	Penalty float64 // taken off the reward of a completion of full length
	KL      float64 // the coefficient of each token's divergence from the reference, which is taken off
}

// Group is the completions of a prompt.
type Group struct {
	Name    string // for people
	Samples []Sample
}

// Sample is what is known of a completion.
type Sample struct {
	Reward float64
	Tokens int
	KL     []float64 // the estimate for each token; nil where Shaping.KL is 0
}

// Advantages are those of a step.
type Advantages struct {
	Samples [][]float64   // of each group and completion; the mean over its tokens where these differ
	Tokens  [][][]float64 // of each token, nil where all tokens of a completion have the same

	Overlong float64 // the mean penalty for length
	Clipped  float64 // the share of rewards beyond their bound
	Bounded  float64 // the share of advantages beyond theirs
}

// Overlong is the soft penalty for a completion of so many tokens: 0 up to the buffer, and Penalty at its end.
func (s Shaping) Overlong(tokens int) float64 {
	if s.Buffer == 0 {
		return 0
	}
	return s.Penalty * min(1, max(0, float64(tokens-(s.Longest-s.Buffer))/float64(s.Buffer)))
}

// reward is that of a completion without its divergence.
func (s Shaping) reward(x Sample) float64 {
	r := x.Reward
	if s.Clip > 0 {
		r = bounded(r, s.Clip)
	}
	return r - s.Overlong(x.Tokens)
}

func bounded(x, most float64) float64 { return min(most, max(-most, x)) }

// Of compares the completions of groups.
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
			clipped = append(clipped, share(c.Shaping.Clip > 0 && math.Abs(x.Reward) > c.Shaping.Clip))
			beyond = append(beyond, c.bind(&a, k, i)...)
		}
	}
	a.Overlong, a.Clipped, a.Bounded = stats.Mean(overlong), stats.Mean(clipped), stats.Mean(beyond)
	return a, nil
}

// bind holds the advantages of a completion within their bound, and says of each whether it was beyond.
func (c Comparison) bind(a *Advantages, group, sample int) (beyond []float64) {
	x := a.Samples[group][sample : sample+1]
	if a.Tokens != nil {
		x = a.Tokens[group][sample]
	}
	for i := range x {
		beyond = append(beyond, share(c.Bound > 0 && math.Abs(x[i]) > c.Bound))
		if c.Bound > 0 {
			x[i] = bounded(x[i], c.Bound)
		}
	}
	a.Samples[group][sample] = stats.Mean(x)
	return beyond
}

func share(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// within compares the completions of each group. The divergence of one is the sum over its tokens.
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
		all[k] = slices.Clone(c.Within(rewards)) // which an own function may write its next group to
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
