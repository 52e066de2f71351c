package curve

import (
	"math"
	"testing"
)

// A moving average stays within the values of its window, also after a spike before a gap.
func TestAnAverageDoesNotLeaveWhatWasMeasured(t *testing.T) {
	columns := make([]Column, 60)
	for i := range columns {
		columns[i].Mean = nan
		if i < 24 {
			columns[i].Mean = 1
		}
	}
	columns[19].Mean = 1000
	for i, v := range Smooth(columns) {
		if v == v && (v < 1 || v > 1000) {
			t.Errorf("column %d: %v, expected 1 to 1000", i, v)
		}
		if i < 24 && math.IsNaN(v) {
			t.Errorf("column %d has no average", i)
		}
	}
}
