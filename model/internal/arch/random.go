package arch

import (
	"math"
	"math/rand/v2"
)

// RandomBF16 appends n numbers: the sum of four bytes of a random word, centred and scaled, is close
// enough to normal.
func RandomBF16(rng *rand.Rand, out []byte, n int) []byte {
	for i := 0; i < n; i += 2 {
		r := rng.Uint64()
		for half := range min(2, n-i) {
			x := uint32(r >> (32 * half))
			v := normalBF16[x&255+x>>8&255+x>>16&255+x>>24]
			out = append(out, byte(v), byte(v>>8))
		}
	}
	return out
}

// normalBF16 turns a sum of four bytes into the upper half of a float32: standard deviation 0.02, and
// never zero.
var normalBF16 = func() (table [4*255 + 1]uint16) {
	const spread = 147.8 // of the sum of four bytes
	for sum := range table {
		x := float32((float64(sum) - 509.75) * 0.02 / spread)
		table[sum] = uint16(math.Float32bits(x) >> 16)
	}
	return table
}()
