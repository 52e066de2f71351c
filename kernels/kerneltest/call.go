package kerneltest

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// opCase is one operation with fixed sizes and parameters. Its function draws operands from the call
// and runs the operation on them; the call chooses the rows.
type opCase struct {
	name      string
	tolerance float64
	units     [][]int // rows that belong together: single rows, or whole sequences
	trees     []tree  // the trees of units that are not single sequences
	run       func(c *call)
}

// backend is a backend under test, with the parameters that cases have uploaded to it.
type backend struct {
	kernels.Backend
	params map[operand]any
	*rowCache
}

// rowCache has the numbers of the current case, which many calls on all backends need.
type rowCache struct {
	caseName string
	rows     map[operandRow][]float32
}

// operandRow is a row of an operand.
type operandRow struct {
	operand
	row, width int
}

// poison is the content of memory that an operation must overwrite, or must not touch.
var poison = math.Float32frombits(0x7fc00000)

// operand is the n-th operand of a case; it has its own numbers.
type operand struct {
	name string
	n    int
}

func newBackend(b kernels.Backend, d *rowCache) *backend { return &backend{b, map[operand]any{}, d} }

// call is one execution of a case on a backend over some of its units. The numbers of an operand are a function of
// (case, operand, row), so that a row has the same ones in every packing.
type call struct {
	*backend
	t     *testing.T
	name  string
	n     int // operands drawn so far
	units [][]int
	trees map[int]tree // by the first row of their unit
	rows  []int
	T     int
	outs  []func() output
}

func (m *backend) call(t *testing.T, c opCase, units [][]int) result {
	t.Helper()
	k := &call{backend: m, t: t, name: c.name, units: units, trees: map[int]tree{}, rows: slices.Concat(units...)}
	k.T = len(k.rows)
	for i, tree := range c.trees {
		k.trees[c.units[i][0]] = tree
	}
	c.run(k)
	var r result
	for _, read := range k.outs {
		r = append(r, read())
	}
	return r
}

func seed(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// Distributions of operands.
func normal(r *rand.Rand) float32   { return float32(r.NormFloat64()) }
func wide(r *rand.Rand) float32     { return float32(3 * r.NormFloat64()) }
func positive(r *rand.Rand) float32 { return float32(0.1 + r.Float64()) }

// draw returns the n numbers of a row of the next operand, or of a parameter (row −1).
func (o operand) draw(row, n int, number func(*rand.Rand) float32) []float32 {
	r := rand.New(rand.NewPCG(seed(o.name), uint64(o.n)<<32|uint64(row+1)))
	x := make([]float32, n)
	for i := range x {
		x[i] = number(r)
	}
	return x
}

func (c *call) next() operand {
	c.n++
	return operand{c.name, c.n}
}

// f32 uploads numbers into a buffer of their own.
func (m *backend) f32(x ...float32) kernels.Buffer {
	b := m.zeros(kernels.F32, len(x))
	m.Upload(b, x)
	return b
}

func (m *backend) i32(x ...int32) kernels.Buffer {
	b := m.zeros(kernels.I32, len(x))
	m.Upload(b, x)
	return b
}

func (m *backend) zeros(t kernels.DType, n int) kernels.Buffer {
	b, err := m.Alloc(t, n)
	if err != nil {
		panic(err)
	}
	return b
}

func (m *backend) read(b kernels.Buffer) []float32 {
	x := make([]float32, b.Len())
	if err := m.Download(x, b); err != nil {
		panic(err)
	}
	return x
}

func (m *backend) read64(b kernels.Buffer) []float64 {
	x := make([]float64, b.Len())
	if err := m.Download(x, b); err != nil {
		panic(err)
	}
	return x
}

// param is a parameter of n numbers, the same in every call.
func (c *call) param(n int) kernels.Buffer {
	o := c.next()
	if c.params[o] == nil {
		c.params[o] = c.f32(o.draw(-1, n, normal)...)
	}
	return c.params[o].(kernels.Buffer)
}

// matrix is a weight, the same in every call.
func (c *call) matrix(t kernels.DType, rows, cols int) kernels.Matrix {
	o := c.next()
	if c.params[o] == nil {
		c.params[o] = c.load(t, rows, cols, o.draw(-1, rows*cols, normal))
	}
	return c.params[o].(kernels.Matrix)
}

// load makes a matrix of x; numbers of bf16 are truncated, not rounded.
func (m *backend) load(t kernels.DType, rows, cols int, x []float32) kernels.Matrix {
	w, err := m.NewMatrix(t, rows, cols)
	if err != nil {
		panic(err)
	}
	encoding := kernels.EncodedF32
	if t != kernels.F32 {
		encoding = kernels.EncodedBF16
	}
	m.Load(w, 0, kernels.HostRows{Encoding: encoding, Bytes: encode(encoding, x)})
	return w
}

// encode encodes numbers as in a file of weights, bf16 by truncation.
func encode(e kernels.Encoding, x []float32) (b []byte) {
	for _, x := range x {
		if e == kernels.EncodedBF16 {
			b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(x)>>16))
		} else {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
	}
	return b
}

// rowsOf are the numbers of one operand for the rows of the call.
func (c *call) rowsOf(o operand, width int, number func(*rand.Rand) float32) []float32 {
	if d := c.rowCache; d.caseName != c.name {
		d.caseName, d.rows = c.name, map[operandRow][]float32{}
	}
	x := make([]float32, 0, len(c.rows)*width)
	for _, r := range c.rows {
		k := operandRow{o, r, width}
		if c.rowCache.rows[k] == nil {
			c.rowCache.rows[k] = o.draw(r, width, number)
		}
		x = append(x, c.rowCache.rows[k]...)
	}
	return x
}

// in is an input with width numbers per row.
func (c *call) in(width int) kernels.Buffer { return c.inOf(width, normal) }

func (c *call) inOf(width int, number func(*rand.Rand) float32) kernels.Buffer {
	return c.f32(c.rowsOf(c.next(), width, number)...)
}

// ids are integers in [from, to), one per row.
func (c *call) ids(from, to int) kernels.Buffer {
	o := c.next()
	x := make([]int32, c.T)
	for t, r := range c.rows {
		x[t] = int32(from + rand.New(rand.NewPCG(seed(o.name), uint64(o.n)<<32|uint64(r+1))).IntN(to-from))
	}
	return c.i32(x...)
}

// out is an output with width numbers per row; its old content is poison.
func (c *call) out(width int) kernels.Buffer {
	return c.result(width, slices.Repeat([]float32{poison}, c.T*width))
}

// inout is an operand of rows that the operation changes.
func (c *call) inout(width int, number func(*rand.Rand) float32) kernels.Buffer {
	return c.result(width, c.rowsOf(c.next(), width, number))
}

// sum is the gradient of a parameter as rows of width numbers; it is not zero at the start.
func (c *call) sum(width, n int) kernels.Buffer {
	return c.result(width, c.next().draw(-1, n, normal))
}

func (c *call) result(width int, before []float32) kernels.Buffer {
	b := c.f32(before...)
	c.outs = append(c.outs, func() output { return output{width, c.read(b)} })
	return b
}

// cols is an input window into longer rows; the numbers beside it are poison.
func (c *call) cols(width int) kernels.Cols {
	return c.window(width, c.rowsOf(c.next(), width, normal))
}

// outCols is an output window; the numbers beside it must not change.
func (c *call) outCols(width int, accumulate bool) kernels.Cols {
	before := slices.Repeat([]float32{poison}, c.T*width)
	if accumulate {
		before = c.rowsOf(c.next(), width, normal)
	}
	w := c.window(width, before)
	c.outs = append(c.outs, func() output {
		o := output{width: width}
		all := c.read(w.Buf)
		for t := range c.T {
			o.data = append(o.data, all[t*w.Stride+w.From:][:width]...)
		}
		for i, x := range all {
			inside := i%w.Stride >= w.From && i%w.Stride < w.From+width
			if !inside && math.Float32bits(x) != math.Float32bits(poison) {
				c.t.Fatalf("%s: column %d beside the window [%d, %d) was written", c.Name(), i%w.Stride, w.From, w.From+width)
			}
		}
		return o
	})
	return w
}

// window puts rows into a buffer with poison beside them; the positions differ from call to call.
func (c *call) window(width int, x []float32) kernels.Cols {
	left, right := (c.T+c.n)%4, (c.T/2+c.n)%5
	stride := left + width + right
	all := slices.Repeat([]float32{poison}, c.T*stride)
	for t := range c.T {
		copy(all[t*stride+left:], x[t*width:(t+1)*width])
	}
	return kernels.Cols{Buf: c.f32(all...), Stride: stride, From: left, N: width}
}
