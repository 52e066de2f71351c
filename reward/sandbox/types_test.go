package sandbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The kernel counts some per cent too many, and what it ends looks like a program that died.
func TestTheKernelEndsWhatIsLongOverItsLimit(t *testing.T) {
	for _, limit := range []time.Duration{10 * time.Millisecond, 6 * time.Second, time.Minute, time.Hour} {
		require.Greater(t, time.Duration(kernelSeconds(limit))*time.Second, limit+limit/10)
	}
	require.EqualValues(t, 8, kernelSeconds(6*time.Second))
}
