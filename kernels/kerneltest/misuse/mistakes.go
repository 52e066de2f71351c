package misuse

import (
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// memory makes operands, which hold zeros.
type memory struct{ kernels.Backend }

func (m memory) zeros(t kernels.DType, n int) kernels.Buffer { return must(m.Alloc(t, n)) }

func (m memory) cache() kernels.Cache { return must(m.NewCache(heads, kernels.F32, 1, 2)) }

func (m memory) matrix(t kernels.DType) kernels.Matrix {
	w := must(m.NewMatrix(t, n, k))
	m.Load(w, 0, kernels.HostRows{Encoding: kernels.EncodedBF16, Bytes: make([]byte, 2*n*k)})
	return w
}

func must[E any](made E, err error) E {
	if err != nil {
		panic(err)
	}
	return made
}

type mistake struct {
	message string // after "kernels: "
	call    func()
}

// mistakes are the mistakes that concern a single operation.
func mistakes(m memory) []mistake {
	x, ids := m.zeros(kernels.F32, 12), m.zeros(kernels.I32, 3)
	bf16, rounding, f32 := m.matrix(kernels.BF16), m.matrix(kernels.BF16Rounding), m.matrix(kernels.F32)
	return slices.Concat(memoryMistakes(m, x, ids), []mistake{
		{"Load: m is nil", m.loading(nil, 0, kernels.EncodedBF16, 12)},
		{"Load: src has 7 bytes, expected rows of 12", m.loading(bf16, 0, kernels.EncodedBF16, 7)},
		{"Load: rows [4, 5) of a matrix of 4 rows", m.loading(bf16, 4, kernels.EncodedBF16, 12)},
		{"Load: rows [-1, 0) of a matrix of 4 rows", m.loading(bf16, -1, kernels.EncodedBF16, 12)},
		{"Load: a bf16 matrix takes bf16 rows only", m.loading(bf16, 0, kernels.EncodedF32, 24)},
		{"Load: a bf16 matrix takes bf16 rows only", m.loading(rounding, 0, kernels.EncodedF32, 24)},
		{"Load: a bf16 matrix takes bf16 rows only", m.loading(rounding, 0, kernels.EncodedF16, 12)},
		{"Load: encoding 9 is not known", m.loading(f32, 0, 9, 24)},
		{"Load: m has been compressed, and is only read from then on", m.loading(m.compressed(kernels.BF16), 0, kernels.EncodedBF16, 12)},
		{"Pack: m has been compressed, and is only read from then on", func() { m.Pack(m.compressed(kernels.F32), 0, x) }},
		{"Pack: src has 11 elements, expected rows of 6", func() { m.Pack(f32, 0, x.Slice(0, 11)) }},
		{"Pack: rows [3, 5) of a matrix of 4 rows", func() { m.Pack(f32, 3, x) }},
	}, shapeMistakes(m, x, ids))
}

func memoryMistakes(m memory, x, ids kernels.Buffer) []mistake {
	return []mistake{
		{"Alloc: rounding bf16 buffers do not exist, expected f32, i32 or f64", func() { _, _ = m.Alloc(kernels.BF16Rounding, 1) }},
		{"NewMatrix: i32 matrices do not exist, expected f32, bf16 or rounding bf16", func() { _, _ = m.NewMatrix(kernels.I32, 1, 1) }},
		{"Slice: [5, 13) of 12 elements", func() { x.Slice(5, 13) }},
		{"Slice: [5, 4) of 12 elements", func() { x.Slice(5, 4) }},
		{"Slice: [-1, 2) of 3 elements", func() { ids.Slice(-1, 2) }},
		{"Slice: [1, 3) of 2 elements", func() { m.zeros(kernels.F64, 4).Slice(1, 3).Slice(1, 3) }},
		{"Upload: dst is f32 [12], expected i32 [1]", func() { m.Upload(x, []int32{1}) }},
		{"Upload: the Go side is string, expected []float32, []int32 or []float64", func() { m.Upload(x, "numbers") }},
		{"Fetch: src is f32 [12], expected i32 [3]", func() { m.Fetch(make([]int32, 3), x) }},
		{"Download: src is f32 [12], expected f32 [13]", func() { _ = m.Download(make([]float32, 13), x) }},
		{"Download: the Go side is int, expected []float32, []int32 or []float64", func() { _ = m.Download(1, x) }},
		{"Zero: dst is nil", func() { m.Zero(nil) }},
		{"Copy: src is nil", func() { m.Copy(x, nil) }},
		{"Copy: dst is i32 [3], expected f32 [12]", func() { m.Copy(ids, x) }},
		{"Release: b is nil", func() { m.Release(nil) }},
		{"Release: b is a slice of a buffer, expected all of it", func() { m.Release(x.Slice(0, 11)) }},
		{"Release: b has been released", func() { m.Release(m.released()) }},
		{"Zero: dst has been released", func() { m.Zero(m.released()) }},
		{"Zero: dst has been released", func() { m.Zero(m.released().Slice(0, 1)) }},
		{"Copy: src has been released", func() { m.Copy(x, m.released()) }},
	}
}

func (m memory) loading(w kernels.Matrix, row int, e kernels.Encoding, bytes int) func() {
	return func() { m.Load(w, row, kernels.HostRows{Encoding: e, Bytes: make([]byte, bytes)}) }
}

func (m memory) released() kernels.Buffer {
	b := m.zeros(kernels.F32, 12)
	m.Release(b)
	return b
}

func (m memory) compressed(t kernels.DType) kernels.Matrix {
	w := m.matrix(t)
	if err := m.Compress(w); err != nil {
		panic(err)
	}
	return w
}

func shapeMistakes(m memory, x, ids kernels.Buffer) []mistake {
	linear := func(out, x kernels.Cols) func() {
		return func() { m.Linear(out, x, m.matrix(kernels.F32), kernels.LinearOpt{Alpha: 1}, 1) }
	}
	paged := func(c kernels.Cache, layer int, h kernels.Heads) func() {
		p := kernels.Paged{Starts: ids, Positions: ids, Tables: ids, N: 1, Stride: 1}
		return func() { m.PagedAttention(x, x, c, layer, p, kernels.Attn{Heads: h}, 0) }
	}
	outside := kernels.Cols{Buf: x, Stride: 6, From: -1, N: n}
	return []mistake{
		{"Linear: out is columns [0, 3) of 3, expected 4 columns inside the row", linear(kernels.Whole(x, 3), kernels.Whole(x, k))},
		{"Linear: x is columns [0, 4) of 4, expected 6 columns inside the row", linear(kernels.Whole(x, n), kernels.Whole(x, n))},
		{"LinearGradW: factors of i32, expected f32 or bf16", func() {
			m.LinearGradW(m.zeros(kernels.F32, n*k), kernels.Whole(x, n), kernels.Whole(x, k), 1, kernels.I32, 1)
		}},
		{"LinearGradW: the number of columns is 0, expected at least 1", func() {
			m.LinearGradW(x, kernels.Whole(x, n), kernels.Cols{Buf: x, Stride: k}, 1, kernels.F32, 1)
		}},
		{"BiasGrad: the number of columns is -1, expected at least 1", func() { m.BiasGrad(x, kernels.Cols{Buf: x, From: 1, N: -1}, 1) }},
		{"Linear: out is columns [-1, 3) of 6, expected 4 columns inside the row", linear(outside, kernels.Whole(x, k))},
		{"LinearGradX: a gradient to x has no bias", func() {
			m.LinearGradX(kernels.Whole(x, k), kernels.Whole(x, n), m.matrix(kernels.F32), kernels.LinearOpt{Bias: x}, 1)
		}},
		{"RopeTable: dim is 3, expected an even number", func() { m.RopeTable(x, ids, nil, 1, 3, 1) }},
		{"RopeTable: dim is 0, expected an even number", func() { m.RopeTable(x, ids, nil, 1, 0, 1) }},
		{"Loss: kind 9 is not known", func() { m.Loss(x, x, kernels.LossIn{}, kernels.Loss{Kind: 9}, 1) }},
		{"Draw: the number of top tokens is 5, expected at most 4", func() {
			in := kernels.DrawIn{InvTemp: x, Uniform: m.zeros(kernels.F64, 1), TopK: ids, TopP: x, MinP: x}
			m.Draw(kernels.DrawOut{Token: ids, LogP: x, Tops: 5, TopToken: ids, TopLogP: x}, x, m.matrix(kernels.F32), in, 1)
		}},
		{"CopyBlocks: the cache is nil", func() { m.CopyBlocks(nil, ids, ids, 1) }},
		{"PagedAttention: the cache is nil", paged(nil, 0, heads)},
		{"PagedAttention: layer 1 of 1", paged(m.cache(), 1, heads)},
		{"PagedAttention: layer -1 of 1", paged(m.cache(), -1, heads)},
		{"PagedAttention: heads are {Q:1 KV:1 Dim:2}, those of the cache {Q:2 KV:1 Dim:2}",
			paged(m.cache(), 0, kernels.Heads{Q: 1, KV: 1, Dim: 2})},
	}
}

// testForeign: operands of another backend are refused; the message differs from backend to backend.
func testForeign(t *testing.T, m memory) {
	x, ids := m.zeros(kernels.F32, n*k), m.zeros(kernels.I32, 3)
	buffer, matrix := struct{ kernels.Buffer }{x}, struct{ kernels.Matrix }{m.matrix(kernels.F32)}
	for name, run := range map[string]func(){
		"Add":        func() { m.Add(x, buffer, x, n) },
		"Upload":     func() { m.Upload(buffer, []float32{1}) },
		"Copy":       func() { m.Copy(x, buffer) },
		"Zero":       func() { m.Zero(buffer) },
		"Unpack":     func() { m.Unpack(x, matrix) },
		"Load":       func() { m.Load(matrix, 0, kernels.HostRows{Bytes: make([]byte, 4*k), Encoding: kernels.EncodedF32}) },
		"Compress":   func() { _ = m.Compress(matrix) },
		"CopyBlocks": func() { m.CopyBlocks(struct{ kernels.Cache }{m.cache()}, ids, ids, 1) },
	} {
		if panicMessage(run) == "" {
			t.Errorf("%s took an operand of another backend", name)
		}
	}
}
