package sandbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// RLIMIT_CPU is well above the limit that decides the verdict: see kernelSeconds.
func TestTheKernelEndsWhatIsLongOverItsLimit(t *testing.T) {
	for _, limit := range []time.Duration{10 * time.Millisecond, 6 * time.Second, time.Minute, time.Hour} {
		require.Greater(t, time.Duration(kernelSeconds(limit))*time.Second, limit+limit/10)
	}
	require.EqualValues(t, 8, kernelSeconds(6*time.Second))
}

// A limit of 0 or less takes its default.
func TestLimitsThatNobodyGave(t *testing.T) {
	usual := Limits{CPU: 6*time.Second + chargedPauses, Wall: 13 * time.Second, Memory: 1 << 30, Output: 16 << 20}
	require.Equal(t, usual, Limits{}.effective())
	require.Equal(t, usual, Limits{CPU: -1, Wall: -1, Memory: -1, Output: -1}.effective(), "-1 is no limit of its own either")
	own := Limits{CPU: time.Second, Wall: 2 * time.Second, Memory: 3 << 20, Output: 4}
	kept := own.effective()
	kept.CPU -= chargedPauses
	require.Equal(t, own, kept)
	session := SessionLimits{}.effective()
	require.Equal(t, session, SessionLimits{Call: Limits{CPU: -1, Output: -1}, Total: -1, Keep: -1}.effective())
	require.Equal(t, []any{time.Minute, 16 << 10, int64(1 << 20)}, []any{session.Total, session.Keep, session.Call.Output})
}
