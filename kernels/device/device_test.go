package device

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
)

func TestTheProcessorHasTwoNames(t *testing.T) {
	var names []string
	for _, device := range []string{"auto", "cpu"} {
		b, err := Open(device, 2)
		require.NoError(t, err)
		names = append(names, b.Name())
		require.NoError(t, b.Close())
	}
	require.Len(t, slices.Compact(names), 1)
	require.Contains(t, names[0], ", 2 threads")
}

func TestOtherDevicesAreRefused(t *testing.T) {
	for _, device := range []string{"", "gpu", "CPU", "cuda", "cuda:", "cuda:-1", "cuda:01", "cuda:1x", "cuda:70000"} {
		_, err := Open(device, 0)
		require.True(t, badinput.Is(err))
		require.ErrorContains(t, err, "expected auto, cpu or cuda:N")
	}
	_, err := Open("cpu", -1)
	require.True(t, badinput.Is(err))
}

// A backend reports its peak rates, also through the wrapper that checks its calls.
func TestTheProcessorTellsItsPeak(t *testing.T) {
	b, err := Open("cpu", 1)
	require.NoError(t, err)
	defer b.Close()
	peak, known := kernels.PeakOf(b)
	require.True(t, known)
	require.Greater(t, peak.Flops, 1e8)
	require.GreaterOrEqual(t, peak.Products, peak.Flops/2)
	require.Greater(t, peak.Bytes, 1e8)
}
