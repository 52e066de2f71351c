//go:build !gpu

package cuda

import (
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// OpenBackend takes a card into use to compute on it: there is none without the GPU backend.
func OpenBackend(index int, o driver.Options) (kernels.Backend, error) {
	_, err := driver.Open(index, o)
	return nil, err
}
