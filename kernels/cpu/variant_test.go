package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Narrow vectors are chosen if they are faster, but not because another program ran during the first probe of the wide ones.
func TestNoiseChoosesNoVariant(t *testing.T) {
	all := variants()
	if hasTileUnit(all[0]) {
		all = all[1:]
	}
	if len(all) < 2 {
		t.Skip("one set of kernels alone runs here")
	}
	require.Same(t, all[1], fastestOf(all, prefers(all[1])))
	require.Same(t, all[0], fastestOf(all, disturbed(all[0])))
}

// disturbed gives all variants the same rate, except one at its first probe.
func disturbed[T comparable](slow T) func(T) float64 {
	asked := false
	return func(x T) float64 {
		if x == slow && !asked {
			asked = true
			return 1
		}
		return 2
	}
}

// prefers gives one variant a higher rate than all others.
func prefers[T comparable](best T) func(T) float64 {
	return func(x T) float64 {
		if x == best {
			return 2
		}
		return 1
	}
}
