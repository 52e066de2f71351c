//go:build gpu

package cuda

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// window is a window of f32 columns: rows that are Stride elements apart, of which N count.
type window struct {
	at        ptr
	stride, n int
}

// weights are a matrix w [N, K], row-major. Products are fast where rows start at multiples of 16 bytes.
type weights struct {
	at           ptr
	dtype        kernels.DType // BF16, BF16Rounding or F32
	stride, n, k int           // of codes, the stride is in bytes
	codes        codes         // of weights of four bits
}

// from are so many of its rows, from that one on.
func (w weights) from(row, n int) weights {
	size := w.dtype.Size()
	if w.codes.values != 0 {
		size = 1
		w.codes.scales += ptr(4 * row * w.codes.groups)
	}
	w.at, w.n = w.at+ptr(row*w.stride*size), n
	return w
}

// written is how a product is written.
type written struct {
	alpha      float32
	accumulate bool
	bias       ptr // or 0
}

// tile is a shape in which a product is computed. All give the same bits: a shape is chosen for speed alone.
type tile struct {
	name        string
	high, broad int // results of a block
	threads     int
	deep        int // of the inner size, in a step
	stages      int // of the ring in shared memory
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

// gradientChain is the number of rows that a gradient of weights sums in one chain.
const gradientChain = 512

// factor is the shared memory of rows of so many numbers, which are kept apart so that they lie in different banks.
func factor(rows, numbers, apart, size int) int { return rows * (numbers + apart) * size }

// tensorShared is the shared memory of a product with bf16 weights.
func (t tile) tensorShared(transposed bool) int {
	rows, numbers := t.broad, t.deep
	if transposed {
		rows, numbers = numbers, rows
	}
	return t.stages * (factor(t.high, t.deep, 8, 4) + factor(rows, numbers, 8, 2))
}

// codesShared is that of a product with weights of four bits, whose rows have scales behind their codes.
func (t tile) codesShared(transposed bool) int {
	rows, numbers := t.broad, t.deep
	if transposed {
		rows, numbers = numbers, rows
	}
	pitch := (ceil(numbers/2+numbers/codeColumns*4, 16) | 1) * 16
	return t.stages * (factor(t.high, t.deep, 8, 4) + rows*pitch)
}

// f32Shared is that of a product of f32, whose factors lie with the inner size along rows, or along columns.
func (t tile) f32Shared(first, second bool) int {
	bytes := 0
	for _, alongColumns := range []bool{first, second} {
		if alongColumns {
			bytes += factor(t.deep, t.high, 4, 4)
		} else {
			bytes += factor(t.high, t.deep, 4, 4)
		}
	}
	return t.stages * bytes
}

// products are the kernels of linear.go on a card.
type products struct {
	processors int // of the card
	large      int // weights of a matrix that are worth a launch more
	functions  map[product]*driver.Function
	shared     map[product]int // memory of a block of each
}

// The kernels' names begin with the operation.
const (
	linearName = "linear"
	gradXName  = "linear_grad_x"
	gradWName  = "linear_grad_w"

	gradWAddName = gradWName + "_add"
	codesName    = "_codes" // behind that of one with weights of four bits
)

// newProducts finds the kernels of a card.
func newProducts(card driver.Card, kernel func(name string) (*driver.Function, error)) (*products, error) {
	shared := map[product]int{{op: gradWAddName}: 0, {op: stripsName}: 0}
	p := &products{card.Processors, largeMatrix, map[product]*driver.Function{}, shared}
	shared[chains.kernel(linearName, kernels.F32)] = chains.chainsShared()
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
func (t tile) blocks(rows, columns int) int { return ceil(rows, t.high) * ceil(columns, t.broad) }

// choose takes the largest tile of which a result fills more than half in both directions, and that gives every processor of
// the card a block; the smallest where there is none.
func (p *products) choose(tiles []tile, rows, columns int) tile {
	for _, t := range tiles[:len(tiles)-1] {
		if rows > t.high/2 && columns > t.broad/2 && t.blocks(rows, columns) >= p.processors {
			return t
		}
	}
	return tiles[len(tiles)-1]
}

// product is a kernel: an operation with weights of a type, in tiles.
type product struct {
	op    string
	dtype kernels.DType
	tile  string // or none
	codes bool   // weights have four bits
}

func (t tile) kernel(op string, dtype kernels.DType) product {
	return product{op: op, dtype: dtype, tile: t.name}
}

// ofCodes is that with weights of four bits.
func (p product) ofCodes() product {
	p.codes = true
	return p
}

// String is its name.
func (p product) String() string {
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
func (p *products) linear(s *driver.Stream, out, x window, w weights, o written, T int) error {
	t := p.choose(tilesOf(w.dtype), T, w.n)
	if p.chained(x, w, T) {
		t = chains
	}
	return p.multiply(s, linearName, t, out, x, w, o, T)
}

// gradX: dx [T, K] = (accumulate ? dx : 0) + alpha · dy [T, N] · w.
func (p *products) gradX(s *driver.Stream, dx, dy window, w weights, o written, T int) error {
	return p.multiply(s, gradXName, p.choose(tilesOf(w.dtype), T, w.k), dx, dy, w, o, T)
}

// multiply computes linear or gradX in tiles of that shape.
func (p *products) multiply(s *driver.Stream, op string, t tile, out, x window, w weights, o written, T int) error {
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
	grid, block := dims{X: ceil(outer, t.broad), Y: ceil(T, t.high)}, dims{X: t.threads}
	if c := w.codes; c.values != 0 {
		return s.Launch(p.functions[t.kernel(op, w.dtype).ofCodes()], grid, block, t.codesShared(op == gradXName),
			address(out.at), i64(out.stride), address(x.at), i64(x.stride), address(w.at), address(c.scales), i64(c.shift), address(c.values),
			address(o.bias), f32(o.alpha), i64(accumulate), i64(T), i64(outer), i64(inner))
	}
	kernel := t.kernel(op, w.dtype)
	shared := p.shared[kernel]
	if w.dtype == kernels.F32 && t != chains {
		shared = shared / t.stages * max(1, min(t.stages, ceil(inner, t.deep))) // more blocks fit where fewer stages do
	}
	return s.Launch(p.functions[kernel], grid, block, shared,
		address(out.at), i64(out.stride), address(x.at), i64(x.stride), address(w.at), i64(w.stride), address(o.bias),
		f32(o.alpha), i64(accumulate), i64(T), i64(outer), i64(inner))
}

// scratch is memory for sums that are added later: so many numbers of f32.
type scratch struct {
	at      ptr
	numbers int
}

// sumsOfGradW is the scratch memory that a gradient has use for: none where a block adds the chains of its tile. A result with too
// few tiles for the card has blocks for each chain of rows.
func (p *products) sumsOfGradW(n, k, T int) (numbers int) {
	chains := ceil(T, gradientChain)
	if chains <= 1 || p.choose(gradWTiles, n, k).blocks(n, k) >= p.processors {
		return 0
	}
	return chains * n * k
}

// gradW: dw [N, K] += alpha · dyᵀ [N, T] · x [T, K], by the scratch memory of sumsOfGradW.
func (p *products) gradW(s *driver.Stream, dw ptr, dy, x window, alpha float32, sums scratch, T int) error {
	return p.gradWBy(s, p.choose(gradWTiles, dy.n, x.n), dw, dy, x, alpha, sums, T)
}

// gradWBy is gradW in tiles of that shape, by scratch memory if there is enough.
func (p *products) gradWBy(s *driver.Stream, t tile, dw ptr, dy, x window, alpha float32, sums scratch, T int) error {
	if T == 0 {
		return nil
	}
	chains, n := ceil(T, gradientChain), dy.n*x.n
	if chains == 1 || sums.numbers < chains*n {
		chains, sums = 1, scratch{}
	}
	f := p.functions[t.kernel(gradWName, kernels.F32)]
	err := s.Launch(f, dims{X: ceil(x.n, t.broad), Y: ceil(dy.n, t.high), Z: chains}, dims{X: t.threads},
		t.f32Shared(true, true), address(dw), address(dy.at), i64(dy.stride), address(x.at), i64(x.stride), f32(alpha), address(sums.at),
		i64(T), i64(dy.n), i64(x.n))
	if err != nil || sums.at == 0 {
		return err
	}
	err = s.Launch(p.functions[product{op: gradWAddName}], dims{X: ceil(n, 256)}, dims{X: 256}, 0, address(dw), address(sums.at), f32(alpha),
		i64(chains), i64(n))
	if err != nil {
		return fmt.Errorf("adding the sums of a gradient: %w", err)
	}
	return nil
}
