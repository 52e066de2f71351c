package cpu

import (
	"hash/fnv"
	"runtime"
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// The bits of a product and of the head are the same on every machine with fused multiply-adds: x86 with
// AVX2 or AVX-512, Arm, with any compiler. This is their recorded fingerprint; a change of it changes all
// numbers, and breaks the resumption of runs across versions.
func TestTheSameBitsOnEveryMachine(t *testing.T) {
	want := map[kernels.Order]map[kernels.DType]uint64{
		kernels.Serial: {kernels.BF16: 0x5d617f32862131a0, kernels.BF16Rounding: 0xc8cc42e57611bf64},
		kernels.Tiles:  {kernels.BF16: 0xf3b687326f4c1007, kernels.BF16Rounding: 0x3dd9bf6578080ed8},
	}
	const T, V, H = 19, 1500, 300
	random := lcg(1)
	uniform := func(n int, scale float32) []float32 {
		return random.draw(n, func(bits float32) float32 { return scale * (bits*0x1p-23 - 1) })
	}
	c := &headCase{T: T, V: V, H: H, h: uniform(T*H, 1), w: uniform(V*H, 0.3), dlogp: uniform(T, 1), invTemp: 0.8}
	for i := range T {
		c.targets = append(c.targets, int32(i*71%V))
	}
	y := uniform(T*V, 1)
	w := slices.Clone(c.w) // a bf16 matrix rounds what it is given
	for _, name := range Variants() {
		if name == "portable" && runtime.GOARCH == "amd64" {
			continue // it has no fused multiply-adds
		}
		for order, want := range want {
			o := Options{Threads: 2, Variant: name, Order: order}
			for dtype, want := range want {
				product := kernels.F32
				if dtype == kernels.BF16Rounding || order == kernels.Tiles {
					product = dtype
				}
				sum := fnv.New64a()
				out, dx, dw := results(t, o, product, c.h, y, slices.Clone(w), T, V, H)
				r := c.run(t, open(t, o), dtype, 0, T, true)
				for _, x := range [][]float32{out, dx, dw, r.logp, r.entropy, r.lse, r.jacobian, r.dw} {
					sum.Write(bytesOf(x))
				}
				if got := sum.Sum64(); got != want {
					t.Errorf("%s, %v, %v: fingerprint %#x, want %#x", name, order, dtype, got, want)
				}
			}
		}
	}
}
