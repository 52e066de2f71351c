package process

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPeakMemoryIsThatOfAProcess(t *testing.T) {
	require.Greater(t, PeakMemory(), 0.001)
	require.Less(t, PeakMemory(), 100.0)
}
