//go:build gpu

package cuda

import "github.com/seed-7879b91d/grpo/kernels/cuda/driver"

// Short names for the arguments of launches.
type (
	ptr  = driver.Ptr
	arg  = driver.Arg
	dims = driver.Dim
)

func address(at ptr) arg { return driver.Address(at) }
func i64(n int) arg      { return driver.Int(n) }
func f32(x float32) arg  { return driver.Float(x) }
func f64(x float64) arg  { return driver.Double(x) }
