package cpu

// #include "kernels.h"
import "C"

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

// memory is a piece of C memory that lives as long as a buffer or matrix points to it.
type memory struct {
	p       unsafe.Pointer
	bytes   int
	cleanup runtime.Cleanup
}

// inUse is how much memory all backends hold; swept is the least of it since garbage was last collected.
// Go does not see this memory, so it would not hurry to give back what nobody holds.
var inUse, swept atomic.Int64

// sweepAfter is by how much memory must have grown, beyond doubling, before garbage is collected for it.
const sweepAfter = 256 << 20

func allocate(bytes int) (*memory, error) {
	now := inUse.Add(int64(bytes))
	if now > 2*swept.Load()+sweepAfter {
		runtime.GC()
		swept.Store(now)
	}
	swept.Store(min(swept.Load(), now)) // what is dropped is given back a moment later
	p := C.grpo_alloc(C.size_t(bytes))
	if p == nil {
		return nil, fmt.Errorf("cpu: the machine has no %d bytes of memory left", bytes)
	}
	m := &memory{p: p, bytes: bytes}
	m.cleanup = runtime.AddCleanup(m, func(p unsafe.Pointer) { giveBack(p, bytes) }, p)
	return m, nil
}

func giveBack(p unsafe.Pointer, bytes int) {
	C.grpo_free(p, C.size_t(bytes))
	inUse.Add(-int64(bytes))
}

// free gives the memory back at once: nobody else may hold it.
func (m *memory) free() {
	m.cleanup.Stop()
	giveBack(m.p, m.bytes)
	m.p = nil
}

type buffer struct {
	mem *memory
	p   unsafe.Pointer
	t   kernels.DType
	n   int
}

func (b *buffer) DType() kernels.DType { return b.t }
func (b *buffer) Len() int             { return b.n }

func (b *buffer) Slice(from, to int) kernels.Buffer {
	if from < 0 || from > to || to > b.n {
		panic(fmt.Sprintf("cpu: slice [%d, %d) of a buffer of %d elements", from, to, b.n))
	}
	return &buffer{b.mem, unsafe.Add(b.p, from*b.t.Size()), b.t, to - from}
}

// Alloc gives a zeroed buffer that starts on a cache line.
func (b *Backend) Alloc(t kernels.DType, n int) (kernels.Buffer, error) {
	if t == kernels.BF16 || t == kernels.BF16Rounding {
		return nil, fmt.Errorf("cpu: a buffer of %v: only a matrix can be that", t)
	}
	if n < 0 {
		return nil, fmt.Errorf("cpu: a buffer of %d elements", n)
	}
	m, err := allocate(n * t.Size())
	if err != nil {
		return nil, err
	}
	return &buffer{m, m.p, t, n}, nil
}

// Upload copies a Go slice into the start of dst.
func (b *Backend) Upload(dst kernels.Buffer, src any) {
	switch s := src.(type) {
	case []float32:
		copy(view[float32](dst, kernels.F32, len(s), "Upload: dst"), s)
	case []int32:
		copy(view[int32](dst, kernels.I32, len(s), "Upload: dst"), s)
	case []float64:
		copy(view[float64](dst, kernels.F64, len(s), "Upload: dst"), s)
	default:
		panic(fmt.Sprintf("cpu: Upload: src is %T; expected []float32, []int32 or []float64", src))
	}
	runtime.KeepAlive(dst)
}

// Download copies the start of src into a Go slice.
func (b *Backend) Download(dst any, src kernels.Buffer) error {
	switch d := dst.(type) {
	case []float32:
		copy(d, view[float32](src, kernels.F32, len(d), "Download: src"))
	case []int32:
		copy(d, view[int32](src, kernels.I32, len(d), "Download: src"))
	case []float64:
		copy(d, view[float64](src, kernels.F64, len(d), "Download: src"))
	default:
		panic(fmt.Sprintf("cpu: Download: dst is %T; expected []float32, []int32 or []float64", dst))
	}
	runtime.KeepAlive(src)
	return nil
}

// Zero clears dst.
func (b *Backend) Zero(dst kernels.Buffer) {
	clear(bytesOf(dst, dst.Len()))
	runtime.KeepAlive(dst)
}

// Copy copies all of src into the start of dst.
func (b *Backend) Copy(dst, src kernels.Buffer) {
	if dst.DType() != src.DType() || dst.Len() < src.Len() {
		panic(fmt.Sprintf("cpu: Copy: %d elements of %v into %d of %v", src.Len(), src.DType(), dst.Len(), dst.DType()))
	}
	copy(bytesOf(dst, src.Len()), bytesOf(src, src.Len()))
	runtime.KeepAlive(dst)
	runtime.KeepAlive(src)
}

// view is the first n elements of a buffer as a slice; the caller keeps the buffer alive.
func view[E any](b kernels.Buffer, t kernels.DType, n int, what string) []E {
	c := b.(*buffer)
	c.check(t, n, what)
	return unsafe.Slice((*E)(c.p), n)
}

func bytesOf(b kernels.Buffer, n int) []byte {
	c := b.(*buffer)
	return unsafe.Slice((*byte)(c.p), n*c.t.Size())
}

func (b *buffer) check(t kernels.DType, n int, what string) {
	if b.t != t || b.n < n {
		panic(fmt.Sprintf("cpu: %s: a buffer of %d elements of %v; expected at least %d of %v", what, b.n, b.t, n, t))
	}
}

// f32 is the address of a buffer of at least n floats, kept alive until release.
func (b *Backend) f32(what string, x kernels.Buffer, n int) *C.float {
	return (*C.float)(b.hold(what, x, kernels.F32, n))
}

func (b *Backend) i32(what string, x kernels.Buffer, n int) *C.int32_t {
	return (*C.int32_t)(b.hold(what, x, kernels.I32, n))
}

func (b *Backend) f64(what string, x kernels.Buffer, n int) *C.double {
	return (*C.double)(b.hold(what, x, kernels.F64, n))
}

func (b *Backend) hold(what string, x kernels.Buffer, t kernels.DType, n int) unsafe.Pointer {
	c, ok := x.(*buffer)
	if !ok {
		panic(fmt.Sprintf("cpu: %s: %T is not a buffer of this backend", what, x))
	}
	c.check(t, n, what)
	b.keep(c.mem)
	return c.p
}

// keep holds memory until release.
func (b *Backend) keep(m *memory) {
	if len(b.held) == cap(b.held) {
		panic("cpu: an operation uses too many buffers, or the one before did not defer release")
	}
	b.held = append(b.held, m)
}

// cols is the address of the first element of a window of rows, kept alive likewise.
func (b *Backend) cols(what string, x kernels.Cols, rows int) *C.float {
	if x.From < 0 || x.N < 0 || x.From+x.N > x.Stride {
		panic(fmt.Sprintf("cpu: %s: columns [%d, %d) of rows of %d", what, x.From, x.From+x.N, x.Stride))
	}
	p := b.f32(what, x.Buf, (rows-1)*x.Stride+x.From+x.N)
	return (*C.float)(unsafe.Add(unsafe.Pointer(p), 4*x.From))
}
