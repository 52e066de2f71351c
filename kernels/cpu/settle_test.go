package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// What settling saves: a quarter, where the weights are of one size; nothing where they are of all sizes.
func TestSettledMatricesAreSmaller(t *testing.T) {
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
		if err := b.Settle(m); err != nil {
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

func TestWhatIsSettledIsNotWritten(t *testing.T) {
	b := open(t, Options{})
	m := weights(t, b, kernels.BF16, make([]float32, 64), 8, 8)
	if err := b.Settle(m); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a settled matrix was loaded")
		}
	}()
	b.Load(m, 0, kernels.HostRows{Encoding: kernels.EncodedBF16, Bytes: make([]byte, 16)})
}
