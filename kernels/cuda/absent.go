//go:build !gpu

package cuda

import (
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// OpenBackend returns the error that this binary has no GPU backend.
func OpenBackend(index int, o driver.Options) (kernels.Backend, error) {
	_, err := driver.Open(index, o)
	return nil, err
}
