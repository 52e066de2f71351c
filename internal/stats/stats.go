// Package stats has the estimates for evaluations.
package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// MinProblems is the number of problems below which no conclusions are drawn.
const MinProblems = 20

// PassAtK is the unbiased estimate of the probability that one of k completions is right, if c of n were; NaN for n < k.
func PassAtK(n, c, k int) float64 {
	if n < k || k < 1 {
		return math.NaN()
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

// Interval is the 95 % interval of a mean of shares: by Bootstrap, or by Wilson if all are equal, where a bootstrap has
// no variance.
func Interval(x []float64, seed uint64) [2]float64 {
	if ci := Bootstrap(x, seed); ci[0] < ci[1] {
		return ci
	}
	return Wilson(Mean(x), len(x))
}

// Wilson is the 95 % interval of a share in n cases; [0, 1] for n = 0.
func Wilson(share float64, n int) [2]float64 {
	if n == 0 {
		return [2]float64{0, 1}
	}
	const z = 1.959963984540054
	m := float64(n)
	middle, half := share+z*z/(2*m), z*math.Sqrt(share*(1-share)/m+z*z/(4*m*m))
	return [2]float64{max(0, (middle-half)/(1+z*z/m)), min(1, (middle+half)/(1+z*z/m))}
}

// Unjudged reports whether a share and its interval are those of no problems: records have it as 0, but it is unknown.
func Unjudged(share float64, ci [2]float64) bool { return share == 0 && ci == Wilson(0, 0) }

// ShareText formats a share with its interval.
func ShareText(share float64, ci [2]float64) string {
	if Unjudged(share, ci) {
		return "not judged"
	}
	return fmt.Sprintf("%.3f [%.3f, %.3f]", share, ci[0], ci[1])
}

// Bootstrap is the 95 % bootstrap interval of the mean.
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
