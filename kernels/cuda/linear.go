//go:build gpu

package cuda

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// window is n columns of a row-major f32 buffer, whose rows are stride elements apart.
type window struct {
	at        ptr
	stride, n int
}

// weights are a row-major matrix w [N, K]. Products are fast if rows are aligned to 16 bytes.
type weights struct {
	at           ptr
	dtype        kernels.DType // BF16, BF16Rounding or F32
	stride, n, k int           // the stride of codes is in bytes
	codes        codes         // of 4-bit weights
}

// rowsFrom returns n rows of the matrix, the first of which is row.
func (w weights) rowsFrom(row, n int) weights {
	size := w.dtype.Size()
	if w.codes.values != 0 {
		size = 1
		w.codes.scales += ptr(4 * row * w.codes.groups)
	}
	w.at, w.n = w.at+ptr(row*w.stride*size), n
	return w
}

// epilogue says how a kernel writes a product: alpha times the product, plus the bias, if any, plus the old value if accumulate is set.
type epilogue struct {
	alpha      float32
	accumulate bool
	bias       ptr // or 0
}

// tile is the shape of the part of a product that one block computes. All shapes give the same bits; the choice affects only speed.
type tile struct {
	name          string
	rows, columns int // results of a block
	threads       int
	depth         int // of a step along the inner size
	stages        int // of the pipeline that copies operands to shared memory
}

// The tiles of src/linear_tensor.h, and of src/linear_f32.cu and src/linear_grad_w.cu, large ones first.
var (
	tensorTiles = []tile{
		{"128x128", 128, 128, 256, 32, 3},
		{"32x64", 32, 64, 128, 64, 5},
		{"16x32", 16, 32, 64, 64, 10},
	}
	f32Tiles = []tile{
		{"64x64", 64, 64, 256, 32, 3},
		{"32x32", 32, 32, 128, 64, 5},
	}
	gradWTiles = []tile{
		{"64x64", 64, 64, 256, 32, 3},
		{"32x32", 32, 32, 64, 32, 5},
	}
)

// gradientChain is the number of rows of a chain: a gradient of weights is summed from zero in each chain, and the chains are added in
// ascending order, so it does not matter which block computes a chain.
const gradientChain = 512

// operandBytes is the shared memory of a tile of an operand. Padding of some numbers per row avoids bank conflicts.
func operandBytes(rows, numbers, padding, size int) int { return rows * (numbers + padding) * size }

// tensorShared is the shared memory of a product with bf16 weights.
func (t tile) tensorShared(transposed bool) int {
	rows, numbers := t.columns, t.depth
	if transposed {
		rows, numbers = numbers, rows
	}
	return t.stages * (operandBytes(t.rows, t.depth, 8, 4) + operandBytes(rows, numbers, 8, 2))
}

// codesShared is the shared memory of a product with 4-bit weights, whose rows have scales after their codes.
func (t tile) codesShared(transposed bool) int {
	rows, numbers := t.columns, t.depth
	if transposed {
		rows, numbers = numbers, rows
	}
	pitch := (ceil(numbers/2+numbers/codeColumns*4, 16) | 1) * 16
	return t.stages * (operandBytes(t.rows, t.depth, 8, 4) + rows*pitch)
}

// f32Shared is the shared memory of a product of f32; first and second say of each operand whether its rows are indexed by the inner size.
func (t tile) f32Shared(first, second bool) int {
	bytes := 0
	for _, alongColumns := range []bool{first, second} {
		if alongColumns {
			bytes += operandBytes(t.depth, t.rows, 4, 4)
		} else {
			bytes += operandBytes(t.rows, t.depth, 4, 4)
		}
	}
	return t.stages * bytes
}

// products are the kernels of matrix products, loaded on a card.
type products struct {
	processors int // multiprocessors of the card
	large      int // largeMatrix, which tests change
	functions  map[productKernel]*driver.Function
	shared     map[productKernel]int // bytes per block
}

// Operations, with which the names of their kernels begin.
const (
	linearName = "linear"
	gradXName  = "linear_grad_x"
	gradWName  = "linear_grad_w"

	gradWAddName = gradWName + "_add"
	codesName    = "_codes" // suffix of the operation for 4-bit weights
)

// newProducts looks up the kernels and allows them the shared memory that they need.
func newProducts(card driver.Card, kernel func(name string) (*driver.Function, error)) (*products, error) {
	shared := map[productKernel]int{{op: gradWAddName}: 0, {op: stripsName}: 0}
	p := &products{card.Processors, largeMatrix, map[productKernel]*driver.Function{}, shared}
	shared[tile4x8.kernel(linearName, kernels.F32)] = tile4x8.shared4x8()
	for _, t := range fewTiles {
		shared[t.narrowed(linearName)] = t.narrowedShared()
	}
	for _, op := range []string{linearName, gradXName} {
		for _, t := range tensorTiles {
			for _, dtype := range []kernels.DType{kernels.BF16, kernels.BF16Rounding} {
				shared[t.kernel(op, dtype)] = t.tensorShared(op == gradXName)
				shared[t.kernel(op, dtype).ofCodes()] = t.codesShared(op == gradXName)
			}
		}
		for _, t := range f32Tiles {
			shared[t.kernel(op, kernels.F32)] = t.f32Shared(false, op == gradXName)
		}
		for _, t := range narrowedTiles {
			shared[t.narrowed(op)] = t.narrowedShared()
		}
	}
	for _, t := range gradWTiles {
		shared[t.kernel(gradWName, kernels.F32)] = t.f32Shared(true, true)
	}
	for k, bytes := range shared {
		f, err := kernel(k.String())
		if err != nil {
			return nil, err
		}
		if err = f.AllowShared(bytes); err != nil {
			return nil, err
		}
		p.functions[k] = f
	}
	return p, nil
}

func ceil(n, by int) int { return (n + by - 1) / by }

// blocks is the number of tiles of a result.
func (t tile) blocks(rows, columns int) int { return ceil(rows, t.rows) * ceil(columns, t.columns) }

// choose returns the largest tile of which the result fills more than half in both directions, and which gives every multiprocessor of the
// card a block. If there is none, it returns the smallest tile.
func (p *products) choose(tiles []tile, rows, columns int) tile {
	for _, t := range tiles[:len(tiles)-1] {
		if rows > t.rows/2 && columns > t.columns/2 && t.blocks(rows, columns) >= p.processors {
			return t
		}
	}
	return tiles[len(tiles)-1]
}

// productKernel identifies a kernel: an operation with a type of weights and a tile.
type productKernel struct {
	op    string
	dtype kernels.DType
	tile  string // "": the kernel has no tile
	codes bool   // weights have 4 bits
}

func (t tile) kernel(op string, dtype kernels.DType) productKernel {
	return productKernel{op: op, dtype: dtype, tile: t.name}
}

// ofCodes is the same kernel for 4-bit weights.
func (p productKernel) ofCodes() productKernel {
	p.codes = true
	return p
}

// String is the name of the kernel.
func (p productKernel) String() string {
	if p.codes {
		p.op += codesName
	}
	switch {
	case p.op == gradWAddName, p.op == stripsName:
		return p.op
	case p.op == gradWName:
		return p.op + "_" + p.tile
	case p.dtype == kernels.F32:
		return p.op + "_f32_" + p.tile
	case p.dtype == kernels.BF16Rounding:
		return p.op + "_bf16_" + p.tile
	}
	return p.op + "_split_" + p.tile
}

// tilesOf are the tiles for weights of a type.
func tilesOf(t kernels.DType) []tile {
	if t == kernels.F32 {
		return f32Tiles
	}
	return tensorTiles
}

// linear: out [T, N] = (accumulate ? out : 0) + alpha · x [T, K] · wᵀ + bias.
func (p *products) linear(s *driver.Stream, out, x window, w weights, o epilogue, T int) error {
	t := p.choose(tilesOf(w.dtype), T, w.n)
	if p.suits4x8(x, w, T) {
		t = tile4x8
	}
	return p.multiply(s, linearName, t, out, x, w, o, T)
}

// gradX: dx [T, K] = (accumulate ? dx : 0) + alpha · dy [T, N] · w.
func (p *products) gradX(s *driver.Stream, dx, dy window, w weights, o epilogue, T int) error {
	return p.multiply(s, gradXName, p.choose(tilesOf(w.dtype), T, w.k), dx, dy, w, o, T)
}

// multiply computes linear or gradX in the given tile.
func (p *products) multiply(s *driver.Stream, op string, t tile, out, x window, w weights, o epilogue, T int) error {
	if T == 0 {
		return nil
	}
	outer, inner := w.n, w.k
	if op == gradXName {
		outer, inner = inner, outer
	}
	accumulate := 0
	if o.accumulate {
		accumulate = 1
	}
	grid, block := dims{X: ceil(outer, t.columns), Y: ceil(T, t.rows)}, dims{X: t.threads}
	if c := w.codes; c.values != 0 {
		return s.Launch(p.functions[t.kernel(op, w.dtype).ofCodes()], grid, block, t.codesShared(op == gradXName),
			address(out.at), i64(out.stride), address(x.at), i64(x.stride), address(w.at), address(c.scales), i64(c.shift), address(c.values),
			address(o.bias), f32(o.alpha), i64(accumulate), i64(T), i64(outer), i64(inner))
	}
	kernel := t.kernel(op, w.dtype)
	shared := p.shared[kernel]
	if w.dtype == kernels.F32 && t != tile4x8 {
		shared = shared / t.stages * max(1, min(t.stages, ceil(inner, t.depth))) // fewer stages leave room for more blocks
	}
	return s.Launch(p.functions[kernel], grid, block, shared,
		address(out.at), i64(out.stride), address(x.at), i64(x.stride), address(w.at), i64(w.stride), address(o.bias),
		f32(o.alpha), i64(accumulate), i64(T), i64(outer), i64(inner))
}

// scratch is memory for the f32 sums of chains, which a second kernel adds.
type scratch struct {
	at      ptr
	numbers int
}

// sumsOfGradW is the size of the scratch memory that a gradient of weights can use. Normally a block adds the chains of its tile itself,
// and needs none. If the result has fewer tiles than the card has multiprocessors, each chain has blocks of its own (split-K).
func (p *products) sumsOfGradW(n, k, T int) (numbers int) {
	chains := ceil(T, gradientChain)
	if chains <= 1 || p.choose(gradWTiles, n, k).blocks(n, k) >= p.processors {
		return 0
	}
	return chains * n * k
}

// gradW: dw [N, K] += alpha · dyᵀ [N, T] · x [T, K], with the scratch memory of sumsOfGradW.
func (p *products) gradW(s *driver.Stream, dw ptr, dy, x window, alpha float32, sums scratch, T int) error {
	return p.gradWInTile(s, p.choose(gradWTiles, dy.n, x.n), dw, dy, x, alpha, sums, T)
}

// gradWInTile is gradW in the given tile. It uses split-K if the scratch memory is large enough.
func (p *products) gradWInTile(s *driver.Stream, t tile, dw ptr, dy, x window, alpha float32, sums scratch, T int) error {
	if T == 0 {
		return nil
	}
	chains, n := ceil(T, gradientChain), dy.n*x.n
	if chains == 1 || sums.numbers < chains*n {
		chains, sums = 1, scratch{}
	}
	f := p.functions[t.kernel(gradWName, kernels.F32)]
	err := s.Launch(f, dims{X: ceil(x.n, t.columns), Y: ceil(dy.n, t.rows), Z: chains}, dims{X: t.threads},
		t.f32Shared(true, true), address(dw), address(dy.at), i64(dy.stride), address(x.at), i64(x.stride), f32(alpha), address(sums.at),
		i64(T), i64(dy.n), i64(x.n))
	if err != nil || sums.at == 0 {
		return err
	}
	err = s.Launch(p.functions[productKernel{op: gradWAddName}], dims{X: ceil(n, 256)}, dims{X: 256}, 0, address(dw), address(sums.at),
		f32(alpha), i64(chains), i64(n))
	if err != nil {
		return fmt.Errorf("adding the sums of a gradient: %w", err)
	}
	return nil
}
