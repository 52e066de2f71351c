package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// For integer products, the output says that their limit is unknown: the one shown is of another precision.
func TestLimitsAreOfTheirPrecision(t *testing.T) {
	l := hardwareLimits{Flops: 1e11, Products: 2e11, Bytes: 3e10}
	require.Equal(t, "cpu; limits here: 200 GFLOP/s of products with bf16, 100 GFLOP/s f32 FMA, 30.0 GB/s read\n", l.above("cpu"))
	l.whole = true
	require.Contains(t, l.above("cpu"), "30.0 GB/s read; of products with int16 none is known, and a share may be above 100 %\n")
}
