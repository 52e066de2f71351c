// Package stats has the estimates that evaluations are summed up in.
package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// PassAtK is the unbiased chance that one of k completions is right, when c of n were.
func PassAtK(n, c, k int) float64 {
	if n < k || k < 1 {
		k = max(min(n, k), 1)
	}
	miss := 1.0
	for i := range k {
		if n-c-i <= 0 {
			return 1
		}
		miss *= float64(n-c-i) / float64(n-i)
	}
	return 1 - miss
}

// Mean is the mean, 0 of nothing.
func Mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / math.Max(1, float64(len(x)))
}

// Bootstrap is the interval that the mean falls into in 95 of 100 resamplings.
func Bootstrap(x []float64, seed uint64) [2]float64 {
	if len(x) == 0 {
		return [2]float64{}
	}
	const rounds = 2000
	rng := rand.New(rand.NewPCG(seed, 0xb007))
	means := make([]float64, rounds)
	for r := range means {
		sum := 0.0
		for range x {
			sum += x[rng.IntN(len(x))]
		}
		means[r] = sum / float64(len(x))
	}
	slices.Sort(means)
	return [2]float64{means[rounds*25/1000], means[rounds*975/1000-1]}
}
