package kerneltest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/misuse"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/oracle"
)

// testNarrow: a backend with buffers of bf16 rounds to nearest at every offset, and operations that read such a buffer give the same bits
// as for a buffer of f32 with the same numbers. A backend without such buffers panics.
func testNarrow(t *testing.T, m *backend) {
	if !kernels.Narrows(m.Backend) {
		if kernels.RoundsRows(m.Backend, kernels.Tiles) == nil {
			misuse.Refused(t, "kernels: Alloc: bf16 buffers do not exist, expected f32, i32 or f64", func() { _, _ = m.Alloc(kernels.BF16, 1) })
		}
		misuse.Refused(t, fmt.Sprintf("kernels: Narrow: %s has no buffers of bf16", m.Name()), func() { kernels.Narrow(m.Backend, nil, nil, 1) })
		return
	}
	t.Run("numbers", func(t *testing.T) { testNarrowNumbers(t, m) })
	t.Run("wrong calls", func(t *testing.T) { testNarrowMisuse(t, m) })
	for _, width := range []int{4, 7, 40} {
		t.Run(fmt.Sprintf("rows of %d", width), func(t *testing.T) { testNarrowRows(t, m, width) })
	}
	for _, h := range headShapes {
		t.Run(fmt.Sprint(h), func(t *testing.T) { testNarrowHeads(t, m, h) })
	}
}

// roundingEdges are float32 numbers for which rounding could go wrong: halfway between two numbers of bf16 and next to that, subnormal,
// the largest, infinite and NaN.
func roundingEdges() (x []float32) {
	for _, b := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0x18000, 0x3f807fff, 0x3f808000, 0x3f808001, 0x3f818000, 0x3f81ffff,
		0x007fffff, 0x00800000, 0x7f7f7fff, 0x7f7f8000, 0x7f7fffff, 0x7f800000} {
		x = append(x, math.Float32frombits(b), math.Float32frombits(b|1<<31))
	}
	return x
}

func testNarrowNumbers(t *testing.T, m *backend) {
	x := append(roundingEdges(), fixedNormals("narrow", 2100)...)
	for shift := range 3 { // so that vectors are aligned, or are not
		n := len(x)
		half := m.zeros(kernels.BF16, n+2*shift+1)
		in, back := m.f32(append(make([]float32, shift), x...)...), m.f32(slices.Repeat([]float32{poison}, n+shift)...)
		kernels.Narrow(m.Backend, half.Slice(shift, n+shift), in.Slice(shift, n+shift), n)
		kernels.Widen(m.Backend, back.Slice(shift, n+shift), half.Slice(shift, n+shift), n)
		m.expect(t, fmt.Sprintf("%d numbers, %d further on", n, shift), back.Slice(shift, n+shift), oracle.RoundedToBF16(x)...)

		kernels.Widen(m.Backend, back, half, shift) // must leave the rest unchanged
		m.expect(t, "before", back.Slice(0, shift), make([]float32, shift)...)
		kernels.Widen(m.Backend, back, half.Slice(n+shift, half.Len()), shift+1)
		m.expect(t, "behind", back.Slice(0, shift+1), make([]float32, shift+1)...)
	}
	half, back := m.zeros(kernels.BF16, 6), m.zeros(kernels.F32, 2)
	kernels.Narrow(m.Backend, half, m.f32(math.Float32frombits(0x7fffffff), math.Float32frombits(0xffc00000)), 2)
	m.Copy(half.Slice(3, 6), half.Slice(0, 3))
	m.Zero(half.Slice(0, 2))
	kernels.Widen(m.Backend, back, half.Slice(3, 5), 2)
	for i, x := range m.read(back) {
		if x == x {
			t.Errorf("what is no number becomes %v, number %d", x, i)
		}
	}
	kernels.Widen(m.Backend, back, half, 2)
	m.expect(t, "zeroed", back, 0, 0)
	kernels.Narrow(m.Backend, half, back, 0)
}

// oneHead is the smallest attention.
var oneHead = kernels.Attn{Heads: kernels.Heads{Q: 1, KV: 1, Dim: 2}}

func testNarrowMisuse(t *testing.T, m *backend) {
	half, x := m.zeros(kernels.BF16, 8), m.zeros(kernels.F32, 8)
	for want, run := range map[string]func(){
		"Narrow: n is -1, expected at least 0":           func() { kernels.Narrow(m.Backend, half, x, -1) },
		"Narrow: out is f32 [8], expected bf16 [8]":      func() { kernels.Narrow(m.Backend, x, x, 8) },
		"Narrow: x is f32 [8], expected f32 [9]":         func() { kernels.Narrow(m.Backend, m.zeros(kernels.BF16, 9), x, 9) },
		"Widen: out is bf16 [8], expected f32 [8]":       func() { kernels.Widen(m.Backend, half, half, 8) },
		"Widen: x is nil, expected bf16 [8]":             func() { kernels.Widen(m.Backend, x, nil, 8) },
		"SwiGLU: gateUp is bf16 [8], expected bf16 [16]": func() { m.SwiGLU(x, half, 8, 1) },
		"SwiGLU: out is bf16 [8], expected f32 [4]":      func() { m.SwiGLU(half, half, 4, 1) },
		"Add: a is bf16 [8], expected f32 [8]":           func() { m.Add(x, half, x, 8) },
		"Copy: dst is f32 [8], expected bf16 [8]":        func() { m.Copy(x, half) },
		"Download: src is bf16 [8], expected f32 [8]":    func() { _ = m.Download(make([]float32, 8), half) },
		"RMSNormGradW: x is bf16 [8], expected f32 [8]":  func() { m.RMSNormGradW(x, x, half, kernels.Norm{}, 8, 1) },
		"LinearGradW: x is bf16 [8], expected f32 [8]": func() {
			m.LinearGradW(x, kernels.Whole(x, 1), kernels.Whole(half, 8), 1, kernels.F32, 1)
		},
		"Rope: rope is bf16 [8], expected f32 [2]":         func() { m.Rope(x, half, half, false, oneHead, 1) },
		"Alloc: n is -1, expected at least 0":              func() { _, _ = m.Alloc(kernels.BF16, -1) },
		"Slice: [0, 9) of 8 elements":                      func() { half.Slice(0, 9) },
		"Gather: x is bf16 [8], expected f32 [0]":          func() { m.Gather(x, half, m.i32(0), 8, 1) },
		"QKNormRope: out is bf16 [8], expected f32 [6]":    func() { m.QKNormRope(half, x, x, x, x, 1, oneHead, 1) },
		"GeGLUGrad: dout is bf16 [8], expected f32 [4]":    func() { m.GeGLUGrad(x, half, half, 4, 1) },
		"RMSNorm: weight is bf16 [8], expected f32 [8]":    func() { m.RMSNorm(x, half, half, kernels.Norm{}, 8, 1) },
		"AttentionGrad: out is bf16 [8], expected f32 [2]": func() { m.attentionGradOf(half, x) },
	} {
		misuse.Refused(t, "kernels: "+want, run)
	}
}

func (m *backend) attentionGradOf(out, x kernels.Buffer) {
	spans := kernels.Spans{Starts: m.i32(0, 1), N: 1}
	m.AttentionGrad(x, x, x, out, x, spans, oneHead, kernels.BF16, 1)
}

// sameAsF32 compares the results of operations for rows [T, width] in bf16 with those for the same rows in f32, at several offsets.
func (m *backend) sameAsF32(t *testing.T, width, T int, ops map[string]func(x kernels.Buffer) kernels.Buffer) {
	t.Helper()
	for shift := range 2 {
		n := shift + T*width
		half, wide := m.zeros(kernels.BF16, n), m.zeros(kernels.F32, n)
		kernels.Narrow(m.Backend, half, m.f32(fixedNormals("rows", n)...), n)
		kernels.Widen(m.Backend, wide, half, n)
		for name, op := range ops {
			want, got := op(wide.Slice(shift, n)), op(half.Slice(shift, n))
			equal(t, fmt.Sprintf("%s, %d numbers further on", name, shift), result{{1, m.read(want)}}, result{{1, m.read(got)}})
		}
	}
}

func testNarrowRows(t *testing.T, m *backend, width int) {
	const T = 5
	dy, dgate := m.f32(fixedNormals("dy", T*width)...), m.f32(fixedNormals("dgate", T*width)...)
	weight, norm := m.f32(fixedNormals("weight", width)...), kernels.Norm{Eps: 0.3}
	out := func(n int, run func(out kernels.Buffer)) kernels.Buffer {
		b := m.f32(slices.Repeat([]float32{poison}, n)...)
		run(b)
		return b
	}
	type op = func(x kernels.Buffer) kernels.Buffer
	m.sameAsF32(t, width, T, map[string]op{
		"RMSNorm": func(x kernels.Buffer) kernels.Buffer {
			return out(T*width, func(b kernels.Buffer) { m.RMSNorm(b, x, weight, norm, width, T) })
		},
		"RMSNormGradX": func(x kernels.Buffer) kernels.Buffer {
			return out(T*width, func(b kernels.Buffer) { m.RMSNormGradX(b, dy, x, weight, norm, width, T) })
		},
	})
	m.sameAsF32(t, 2*width, T, map[string]op{
		"SwiGLU": func(x kernels.Buffer) kernels.Buffer {
			return out(T*width, func(b kernels.Buffer) { m.SwiGLU(b, x, width, T) })
		},
		"SwiGLUGrad": func(x kernels.Buffer) kernels.Buffer {
			return out(2*T*width, func(b kernels.Buffer) { m.SwiGLUGrad(b, dgate, x, width, T) })
		},
		"GeGLU": func(x kernels.Buffer) kernels.Buffer {
			return out(T*width, func(b kernels.Buffer) { m.GeGLU(b, x, width, T) })
		},
		"GeGLUGrad": func(x kernels.Buffer) kernels.Buffer {
			return out(2*T*width, func(b kernels.Buffer) { m.GeGLUGrad(b, dgate, x, width, T) })
		},
	})
}

func testNarrowHeads(t *testing.T, m *backend, h kernels.Heads) {
	const T = 3
	n := T * h.Width()
	dout, rope := m.f32(fixedNormals("dout", n)...), m.f32(fixedNormals("rope", T*h.Dim)...)
	qw, kw := m.f32(fixedNormals("qw", h.Dim)...), m.f32(fixedNormals("kw", h.Dim)...)
	out := func(run func(out kernels.Buffer)) kernels.Buffer {
		b := m.f32(slices.Repeat([]float32{poison}, n)...)
		run(b)
		return b
	}
	m.sameAsF32(t, h.Width(), T, map[string]func(x kernels.Buffer) kernels.Buffer{
		"Rope": func(x kernels.Buffer) kernels.Buffer {
			return out(func(b kernels.Buffer) { m.Rope(b, x, rope, false, kernels.Attn{Heads: h}, T) })
		},
		"QKNormRope": func(x kernels.Buffer) kernels.Buffer {
			return out(func(b kernels.Buffer) { m.QKNormRope(b, x, qw, kw, rope, 0.3, kernels.Attn{Heads: h}, T) })
		},
		"QKNormRopeGradX": func(x kernels.Buffer) kernels.Buffer {
			return out(func(b kernels.Buffer) { m.QKNormRopeGradX(b, dout, x, qw, kw, rope, 0.3, h, T) })
		},
	})
}
