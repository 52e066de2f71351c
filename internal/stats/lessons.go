package stats

import "math"

// negligible is an advantage that teaches nothing.
const negligible = 1e-8

// Negligible tells whether no advantage among these teaches anything. One that is not a number is no such: it is refused
// where it is learned from.
func Negligible(advantages []float64) bool {
	for _, a := range advantages {
		if !(math.Abs(a) < negligible) {
			return false
		}
	}
	return true
}

// Rounding tells whether rewards differ from their mean by no more than sums of such numbers are rounded: to divide
// that by its own size would make lessons of noise.
func Rounding(differences, rewards []float64) bool {
	size, most := 0.0, 0.0
	for i, r := range rewards {
		size, most = max(size, math.Abs(r)), max(most, math.Abs(differences[i]))
	}
	return most <= 1e-12*size
}
