//go:build !gpu

package driver

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Without the build tag there is no backend, and the error says how to get one.
func TestNotBuilt(t *testing.T) {
	_, probeErr := Probe(context.Background())
	_, openErr := Open(0, Options{})
	for _, err := range []error{probeErr, openErr} {
		require.ErrorContains(t, err, "built without the GPU backend: type make build")
		require.True(t, badinput.Is(err))
		var why *Unusable
		require.ErrorAs(t, err, &why)
		require.Equal(t, NotBuilt, why.Reason)
		require.False(t, why.Absent(), "whether there is a card is unknown")
	}
	require.False(t, Built)
}

func TestVersions(t *testing.T) {
	require.Equal(t, "8.6", Version{8, 6}.String())
	require.True(t, Version{7, 9}.Before(LeastCapability))
	require.True(t, Version{10, 2}.Before(LeastDriver))
	require.False(t, Version{11, 0}.Before(LeastDriver))
	require.False(t, Version{12, 0}.Before(Version{11, 8}))
}
