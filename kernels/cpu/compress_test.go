package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Compression saves a quarter if the weights have about the same magnitude, and nothing if they have all magnitudes.
func TestCompressedMatricesAreSmaller(t *testing.T) {
	const rows, cols = 1000, 512
	random := rand.New(rand.NewPCG(3, 4))
	b := open(t, Options{})
	size := func(draw func() float64) (before, after int) {
		w := make([]float32, rows*cols)
		for i := range w {
			w[i] = float32(draw())
		}
		m := weights(t, b, kernels.BF16, w, rows, cols)
		before = m.Bytes()
		if err := b.Compress(m); err != nil {
			t.Fatal(err)
		}
		return before, m.Bytes()
	}
	if before, after := size(random.NormFloat64); float64(after) > 0.76*float64(before) {
		t.Errorf("normal weights: %d bytes of %d are left", after, before)
	}
	if before, after := size(func() float64 { return math.Ldexp(1, random.IntN(60)) }); after != before {
		t.Errorf("weights of all sizes: %d bytes of %d are left", after, before)
	}
}
