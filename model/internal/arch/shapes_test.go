package arch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The number of positions that rows read, counted one by one: all before a row, or those in the window, in layers with one.
func TestReads(t *testing.T) {
	for _, c := range []Config{{Layers: 2}, {Layers: 3, Window: 4, Sliding: []bool{true, false, true}}} {
		const T = 1000
		var last, all int
		for layer := range c.Layers {
			for row := 1; row <= T; row++ {
				last = row
				if c.Attn(layer).Window > 0 {
					last = min(row, 4)
				}
				all += last
			}
		}
		most, mean := c.Reads(T)
		require.InEpsilon(t, float64(all)/T/float64(c.Layers), mean, 0.002)
		require.Equal(t, map[int]float64{2: T, 3: (T + 4 + 4) / 3.}[c.Layers], most)
	}
}

// The flops per training token of Qwen3-0.6B, by hand: 4 for each weight, 6 for each of the adapter, and 3.5 times the 4 of a product of
// queries with half of the keys.
func TestTrainingFlops(t *testing.T) {
	c, err := ShapeNamed("qwen3-0.6b")
	require.NoError(t, err)
	weights, adapter, attention := c.TrainingFlops(16, 512)
	const block = 1024*(2048+1024+1024) + 2048*1024 + 3*1024*3072
	require.EqualValues(t, 4*(28*block+151936*1024), weights)
	require.EqualValues(t, 6*28*16*(3*1024+2048+2*1024+2048+1024+2*(1024+3072)+3072+1024), adapter)
	require.EqualValues(t, 3.5*28*4*256*2048, attention)
}
