package stats

import "math"

// negligible is an advantage below which there is no training signal.
const negligible = 1e-8

// Negligible reports whether all advantages are negligible. NaN is not: it is refused elsewhere.
func Negligible(advantages []float64) bool {
	for _, a := range advantages {
		if !(math.Abs(a) < negligible) {
			return false
		}
	}
	return true
}

// Rounding reports whether rewards differ from their mean only by rounding errors. Normalising those would train on
// noise.
func Rounding(differences, rewards []float64) bool {
	size, most := 0.0, 0.0
	for i, r := range rewards {
		size, most = max(size, math.Abs(r)), max(most, math.Abs(differences[i]))
	}
	return most <= 1e-12*size
}
