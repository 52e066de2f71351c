package sampler

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// A temperature by which logits cannot be divided is refused.
func TestTemperaturesThatNothingCanBeDrawnAt(t *testing.T) {
	for _, good := range []float32{0, 1e-6, 0.7, 1, 1e30} {
		require.NoError(t, CheckTemperature(good))
	}
	for _, bad := range []float32{-1, 1e-45, 9e-7, float32(math.Inf(1)), float32(math.NaN())} {
		err := CheckTemperature(bad)
		require.ErrorContains(t, err, "expected 0 (greedy), or at least 1e-06")
		require.True(t, badinput.Is(err))
	}
}
