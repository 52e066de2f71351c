package curve

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Values that differ only by rounding are drawn as constant, in the middle of a readable scale.
func TestAScaleOfRounding(t *testing.T) {
	for _, v := range []float64{1, -1, 0.3, 3e5} {
		s := Linear(min(v, math.Nextafter(v, 0)), max(v, math.Nextafter(v, 0)))
		require.InDelta(t, 0.5, s.Place(v), 0.2)
		for _, tick := range s.Ticks {
			require.LessOrEqual(t, len(tick.Label), 6, "%v", tick)
		}
	}
}
