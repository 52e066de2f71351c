package stats

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPassAtK(t *testing.T) {
	require.InDelta(t, 0.3, PassAtK(10, 3, 1), 1e-12)
	require.InDelta(t, 1-(7.0/10)*(6.0/9), PassAtK(10, 3, 2), 1e-12)
	require.Equal(t, 1.0, PassAtK(4, 2, 3))
	require.Zero(t, PassAtK(4, 0, 4))
}

func TestTheIntervalHoldsTheMean(t *testing.T) {
	x := []float64{0, 1, 1, 0, 1, 1, 1, 0}
	ci := Bootstrap(x, 3)
	require.Equal(t, ci, Bootstrap(x, 3), "the same every time")
	require.Less(t, ci[0], Mean(x))
	require.Greater(t, ci[1], Mean(x))
	require.Equal(t, [2]float64{}, Bootstrap(nil, 3))
	require.Zero(t, Mean(nil))
}
