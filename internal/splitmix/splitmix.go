// Package splitmix has SplitMix64 (Steele, Lea and Flood, 2014) as a counter-based generator. A number drawn by a key and
// an index can be drawn again in any order, on any machine. Making keys, and other distributions, is left to the callers.
package splitmix

// increment is what the generator adds to its state for each number: 2⁶⁴ over the golden ratio, odd.
const increment = 0x9E3779B97F4A7C15

// Mix is the output function: it maps a state to a number, one to one.
func Mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// At is number i, from 0, of the generator whose state starts as key.
func At(key, i uint64) uint64 { return Mix(key + (i+1)*increment) }
