package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLapsAddUp(t *testing.T) {
	w := Start()
	time.Sleep(2 * time.Millisecond)
	laps := w.Lap()
	require.GreaterOrEqual(t, laps, 0.002)
	laps += w.Lap()
	require.GreaterOrEqual(t, w.Total(), laps)
	require.Positive(t, PeakMemory())
}
