package objective

import (
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/stats"
)

// batch normalises the returns of all tokens of the step together. The return of a token is the reward of its completion
// less the KL penalties from that token on, so with a KL penalty the tokens of one completion differ.
func (c Comparison) batch(groups []Group) Advantages {
	returns := make([][][]float64, len(groups))
	for g, group := range groups {
		samples := group.Samples
		rewards := make([]float64, len(samples))
		for i, x := range samples {
			rewards[i] = c.reward(x)
		}
		if c.Baseline && len(samples) > 0 {
			rewards = Mean(rewards)
		}
		returns[g] = make([][]float64, len(samples))
		for i, x := range samples {
			returns[g][i] = rewardToGo(rewards[i], c.KL, x)
		}
	}
	normalise(returns)
	a := Advantages{Samples: make([][]float64, len(groups))}
	if c.KL > 0 {
		a.Tokens = returns
	}
	for g := range returns {
		for _, tokens := range returns[g] {
			one := 0.0 // Of replaces it by the mean over the tokens where these differ
			if len(tokens) > 0 {
				one = tokens[0]
			}
			a.Samples[g] = append(a.Samples[g], one)
		}
	}
	return a
}

// rewardToGo computes the return of each token of a completion (its reward-to-go).
func rewardToGo(reward, coefficient float64, x Sample) []float64 {
	returns := slices.Repeat([]float64{reward}, x.Tokens)
	rest := 0.0
	for t := len(x.KL) - 1; t >= 0; t-- {
		rest += x.KL[t]
		returns[t] -= coefficient * rest
	}
	return returns
}

// normalise brings all returns to a mean of 0 and a standard deviation of 1; to 0 if they are all the same.
func normalise(returns [][][]float64) {
	all := slices.Concat(slices.Concat(returns...)...)
	if len(all) == 0 {
		return
	}
	differences := Mean(all)
	std := 0.0
	if !stats.Negligible(differences) && !stats.Rounding(differences, all) {
		squares := 0.0
		for _, d := range differences {
			squares += d * d
		}
		std = math.Sqrt(squares / float64(len(all)))
	}
	at := 0
	for _, samples := range returns {
		for _, tokens := range samples {
			for t := range tokens {
				tokens[t] = 0
				if std > 0 {
					tokens[t] = differences[at] / std
				}
				at++
			}
		}
	}
}
