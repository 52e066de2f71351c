package display

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// A reward is visible at any magnitude, with no more digits than needed.
func TestReward(t *testing.T) {
	for v, want := range map[float64]string{0: "0.000", 0.5: "0.500", 0.4666667: "0.467", -1: "-1.000", 12.34567: "12.346", 0.0625: "0.0625",
		0.00123456: "0.00123", 1e-5: "1e-5", -2.5e-7: "-2.5e-7", 1234.5: "1,235", 1e7: "10M", -12345678: "-12.3M", 3e15: "3e15", 1e38: "1e38"} {
		require.Equal(t, want, Reward(v))
	}
	require.Equal(t, "–", Reward(math.NaN()))
	require.Equal(t, []string{"+0.250", "-0.250", "+0.000", "+3e-6"},
		[]string{SignedReward(0.25), SignedReward(-0.25), SignedReward(0), SignedReward(3e-6)})
}

// Numbers that round up to the next unit are written in that unit, and less than all is never shown as all.
func TestNumbersAtTheEnds(t *testing.T) {
	for v, want := range map[float64]string{999.4: "999", 999.6: "1,000", 999.7: "1,000", -999.7: "-1,000", 999999.6: "1M",
		1234567: "1.23M", 998.6e6: "999M", 999.4e6: "999M", 999.6e6: "1000M", 999.7e6: "1000M", 1e9: "1000M", 1.2346e9: "1235M",
		9999.9e6: "10000M", 12345e6: "12345M", 999999.4e6: "999999M", 999999.7e6: "1000000M"} {
		require.Equal(t, want, Number(v), v)
	}
	for v, want := range map[float64]string{0: "0", 0.00123: "0.123", 0.004: "0.4", 0.5: "50", 0.99: "99", 0.994: "99", 0.996: "99.6",
		0.9999: "99.9", 1: "100", 1.5: "150"} {
		require.Equal(t, want+"\u00a0%", Percent(v), v)
	}
}

func TestWholeNumbersWithCommas(t *testing.T) {
	for n, want := range map[int64]string{0: "0", -1: "-1", 999: "999", -1000: "-1,000", 1234567: "1,234,567",
		math.MinInt64: "-9,223,372,036,854,775,808"} {
		require.Equal(t, want, Grouped(n))
	}
}
