//go:build !gpu

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// Without the build tag there is no backend, and the error says how to get one.
func TestNotBuilt(t *testing.T) {
	b, err := OpenBackend(0, driver.Options{})
	require.Nil(t, b)
	require.ErrorContains(t, err, "built without the GPU backend: type make build")
}
