//go:build gpu

package cuda

import "github.com/seed-7879b91d/grpo/kernels"

var _ kernels.Narrower = (*Backend)(nil)

// Narrow rounds numbers to bf16.
func (b *Backend) Narrow(out, x kernels.Buffer, n int) {
	b.launch("narrow", gridOfFours(n), at(out), at(x), i64(n))
}

// Widen converts bf16 to f32.
func (b *Backend) Widen(out, x kernels.Buffer, n int) {
	b.launch("widen", gridOfFours(n), at(out), at(x), i64(n))
}

// bf16Variants maps kernels that read rows of f32 to their variants that read bf16. It is a table because formatting a name takes longer
// than a launch.
var bf16Variants = map[string]string{
	"rms_norm": "rms_norm_bf16", "rms_norm_grad_x": "rms_norm_grad_x_bf16", "swiglu": "swiglu_bf16", "swiglu_grad": "swiglu_grad_bf16",
	"geglu": "geglu_bf16", "geglu_grad": "geglu_grad_bf16", "rope": "rope_bf16", "qk_norm_rope": "qk_norm_rope_bf16",
	"qk_norm_rope_grad_x": "qk_norm_rope_grad_x_bf16",
}

// variantFor returns the name of the variant of a kernel that reads the type of x.
func variantFor(name string, x kernels.Buffer) string {
	if x.DType() == kernels.BF16 {
		return bf16Variants[name]
	}
	return name
}
