//go:build gpu

package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

// productFiles are the PTX files with the kernels of newProducts.
var productFiles = []string{linearName, gradXName, linearName + codesName, gradXName + codesName, "linear_f32", gradWName,
	narrowedLinearName, "narrow", "linear_f32_few", "linear_narrowed_few"}

// lab is an open card with the kernels of products, and the reference backend as an oracle.
type lab struct {
	*products
	d      *driver.Device
	s      *driver.Stream
	moves  *driver.Transfers
	oracle kernels.Backend
	rng    *rand.Rand
	memory []*driver.Memory
}

// inLab calls use with the first card. Closing the card fails if anything is still allocated on it.
func inLab(use func(*lab) error) error {
	d, err := driver.Open(0, driver.Options{})
	if err != nil {
		return err
	}
	l := &lab{d: d, oracle: kerneltest.NewReference(), rng: rand.New(rand.NewPCG(7, 11))}
	if l.s, err = d.NewStream(); err != nil {
		return err
	}
	if l.moves, err = l.s.NewTransfers(); err != nil {
		return err
	}
	var modules []*driver.Module
	for _, file := range productFiles {
		text, err := os.ReadFile("ptx/" + file + ".ptx")
		if err != nil {
			return err
		}
		m, err := d.Load(string(text))
		if err != nil {
			return err
		}
		modules = append(modules, m)
	}
	l.products, err = newProducts(d.Card(), func(name string) (f *driver.Function, err error) {
		for _, m := range modules {
			if f, err = m.Function(name); err == nil {
				return f, nil
			}
		}
		return nil, err
	})
	if err == nil {
		err = errors.Join(use(l), l.free())
	}
	for _, m := range modules {
		err = errors.Join(err, m.Close())
	}
	return errors.Join(err, l.moves.Close(), l.s.Close(), d.Close())
}

func (l *lab) free() (err error) {
	for _, m := range l.memory {
		err = errors.Join(err, m.Free())
	}
	l.memory = nil
	return err
}

// normals are n random numbers around zero.
func (l *lab) normals(n int) []float32 { return normals(l.rng, n) }

func normals(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// alloc allocates memory on the card, without content.
func (l *lab) alloc(bytes int) ptr {
	m := must(l.d.Alloc(int64(bytes)))
	l.memory = append(l.memory, m)
	return m.At
}

func (l *lab) put(x any, bytes int) ptr {
	at := l.alloc(bytes)
	must(0, l.moves.Upload(at, must(binary.Append(nil, binary.LittleEndian, x))))
	return at
}

// get reads n numbers.
func (l *lab) get(at ptr, n int) []float32 {
	bytes, x := make([]byte, 4*n), make([]float32, n)
	must(0, l.s.Read(bytes, at))
	must(binary.Decode(bytes, binary.LittleEndian, x))
	return x
}

// columns is a window in a wider buffer, with the same numbers on the card and in the oracle.
type columns struct {
	window
	data []float32
	cols kernels.Cols
}

// columns makes a window of T rows and n columns with random numbers. If aligned, all its rows start at multiples of 16 bytes.
func (l *lab) columns(T, n int, aligned bool) columns {
	from, stride := 4, (n+4+3)/4*4
	if !aligned {
		from, stride = 1+l.rng.IntN(3), n+5
	}
	c := columns{data: l.normals(T*stride + 4)}
	c.window = window{l.put(c.data, 4*len(c.data)) + ptr(4*from), stride, n}
	c.cols = kernels.Cols{Buf: must(l.oracle.Alloc(kernels.F32, len(c.data))), Stride: stride, From: from, N: n}
	l.oracle.Upload(c.cols.Buf, c.data)
	return c
}

// again copies a window, as it was made, to new memory of the card.
func (l *lab) again(c columns) window {
	w := c.window
	w.at = l.put(c.data, 4*len(c.data)) + ptr(4*c.cols.From)
	return w
}

// all reads the whole buffer that has a window, including the numbers outside the window.
func (l *lab) all(w window, c columns) []float32 { return l.get(w.at-ptr(4*c.cols.From), len(c.data)) }

// expected is the oracle's result.
func (l *lab) expected(c columns) []float32 {
	x := make([]float32, len(c.data))
	must(0, l.oracle.Download(x, c.cols.Buf))
	return x
}

// matrix puts random weights on the card and into the oracle. If aligned, rows on the card start at multiples of 16 bytes, with
// uninitialised gaps between them; else they are contiguous.
func (l *lab) matrix(t kernels.DType, n, k int, aligned bool) (weights, kernels.Matrix) {
	m := must(l.oracle.NewMatrix(t, n, k))
	w, size, encoding := weights{dtype: t, n: n, k: k}, 2, kernels.EncodedBF16
	if t == kernels.F32 {
		size, encoding = 4, kernels.EncodedF32
	}
	if w.stride = k; aligned {
		w.stride = ceil(k*size, 16) * 16 / size
	}
	w.at = l.alloc(n * w.stride * size)
	for row := range n {
		var bytes []byte
		for _, x := range l.normals(k) {
			if t == kernels.F32 {
				bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(x))
			} else {
				bytes = binary.LittleEndian.AppendUint16(bytes, uint16(math.Float32bits(x)>>16))
			}
		}
		must(0, l.moves.Upload(w.at+ptr(row*w.stride*size), bytes))
		l.oracle.Load(m, row, kernels.HostRows{Encoding: encoding, Bytes: bytes})
	}
	return w, m
}

// largestError is the largest error relative to the root mean square of want, or to 1 if that is larger.
func largestError(want, got []float32) (worst float64) {
	var squares float64
	for i := range want {
		squares += float64(want[i]) * float64(want[i])
		worst = max(worst, math.Abs(float64(want[i])-float64(got[i])))
		if math.IsNaN(float64(got[i])) {
			return math.NaN()
		}
	}
	return worst / max(1, math.Sqrt(squares/float64(len(want))))
}

// sameBits returns an error about the first number that differs between two results.
func sameBits(what string, a, b []float32) error {
	i := 0
	if slices.EqualFunc(a, b, func(x, y float32) bool { i++; return math.Float32bits(x) == math.Float32bits(y) }) {
		return nil
	}
	return fmt.Errorf("%s: number %d is %v and %v", what, i-1, a[i-1], b[i-1])
}
