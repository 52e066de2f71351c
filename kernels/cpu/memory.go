package cpu

// #include "kernels.h"
import "C"

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	free "github.com/seed-7879b91d/grpo/internal/memory"
	"github.com/seed-7879b91d/grpo/kernels"
)

// memory is a piece of C memory that lives as long as a buffer or matrix refers to it.
type memory struct {
	p       unsafe.Pointer
	bytes   int
	cleanup runtime.Cleanup
}

// inUse is how much memory all backends hold; swept is its minimum since the last garbage collection that allocate started:
// the collector does not see this memory, so it would not run because of unreferenced pieces of it.
var inUse, swept atomic.Int64

// sweepAfter is by how much memory must have grown, beyond doubling, before allocate starts a garbage collection.
const sweepAfter = 256 << 20

func allocate(bytes int) (*memory, error) {
	now := inUse.Add(int64(bytes))
	if now > 2*swept.Load()+sweepAfter {
		runtime.GC()
		swept.Store(now)
	}
	swept.Store(min(swept.Load(), now)) // cleanups run some time after a collection
	if err := checkFree(bytes); err != nil {
		inUse.Add(-int64(bytes))
		return nil, err
	}
	p := C.grpo_alloc(C.size_t(bytes))
	if p == nil {
		inUse.Add(-int64(bytes))
		return nil, fmt.Errorf("cpu: the machine has no %d bytes of memory left", bytes)
	}
	m := &memory{p: p, bytes: bytes}
	m.cleanup = runtime.AddCleanup(m, func(p unsafe.Pointer) { freeMemory(p, bytes) }, p)
	return m, nil
}

// checkFree refuses an allocation beyond the free memory. All its pages are written soon, and if there are too few, the
// OOM killer ends this process, or another one, without a message.
func checkFree(bytes int) error {
	const small = 32 << 20
	if bytes < small {
		return nil
	}
	if room, known := free.Free(); known && int64(bytes) > room.Bytes {
		return fmt.Errorf("cpu: no room for %s, as this process may take %s", free.GB(bytes), room)
	}
	return nil
}

func freeMemory(p unsafe.Pointer, bytes int) {
	C.grpo_free(p, C.size_t(bytes))
	inUse.Add(-int64(bytes))
}

// free returns the memory at once: nothing else may refer to it.
func (m *memory) free() {
	m.cleanup.Stop()
	freeMemory(m.p, m.bytes)
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
	kernels.CheckSlice(b.n, from, to)
	return &buffer{b.mem, unsafe.Add(b.p, from*b.t.Size()), b.t, to - from}
}

func (b *buffer) Released() bool { return b.mem.p == nil }

// Release returns the memory at once: no operation is queued.
func (b *backend) Release(x kernels.Buffer) {
	m := own(x).mem
	kernels.CheckRelease(x.Len()*x.DType().Size() == m.bytes)
	m.free()
}

// Free is the free memory of the machine, or what is left of this process's limit.
func (b *backend) Free() (kernels.Room, bool) { return free.Free() }

// Alloc returns a zeroed buffer that starts on a cache line.
func (b *backend) Alloc(t kernels.DType, n int) (kernels.Buffer, error) {
	m, err := allocate(n * t.Size())
	if err != nil {
		return nil, err
	}
	return &buffer{m, m.p, t, n}, nil
}

// Upload copies a Go slice into the start of dst.
func (b *backend) Upload(dst kernels.Buffer, src any) {
	to := own(dst)
	switch s := src.(type) {
	case []float32:
		copy(elements[float32](to), s)
	case []int32:
		copy(elements[int32](to), s)
	case []float64:
		copy(elements[float64](to), s)
	}
	runtime.KeepAlive(to)
}

// Fetch copies the start of src into a Go slice.
func (b *backend) Fetch(dst any, src kernels.Buffer) {
	from := own(src)
	switch d := dst.(type) {
	case []float32:
		copy(d, elements[float32](from))
	case []int32:
		copy(d, elements[int32](from))
	case []float64:
		copy(d, elements[float64](from))
	}
	runtime.KeepAlive(from)
}

// Download is Fetch: no operation is queued.
func (b *backend) Download(dst any, src kernels.Buffer) error {
	b.Fetch(dst, src)
	return nil
}

// Zero clears dst.
func (b *backend) Zero(dst kernels.Buffer) {
	to := own(dst)
	clear(to.bytes())
	runtime.KeepAlive(to)
}

// Copy copies all of src into the start of dst.
func (b *backend) Copy(dst, src kernels.Buffer) {
	to, from := own(dst), own(src)
	copy(to.bytes(), from.bytes())
	runtime.KeepAlive(to)
	runtime.KeepAlive(from)
}

// own is a buffer of this package's backends as its own type.
func own(x kernels.Buffer) *buffer {
	b, ok := x.(*buffer)
	if !ok {
		panic(fmt.Sprintf("cpu: %T is not a buffer of this backend", x))
	}
	return b
}

// elements are the elements of a buffer as a slice; the caller keeps the buffer alive.
func elements[E any](b *buffer) []E { return unsafe.Slice((*E)(b.p), b.n) }

func (b *buffer) bytes() []byte { return unsafe.Slice((*byte)(b.p), b.n*b.t.Size()) }

// f32 is the address of a buffer of floats, kept alive until release.
func (b *backend) f32(x kernels.Buffer) *C.float { return (*C.float)(b.address(x)) }

func (b *backend) i32(x kernels.Buffer) *C.int32_t { return (*C.int32_t)(b.address(x)) }

func (b *backend) f64(x kernels.Buffer) *C.double { return (*C.double)(b.address(x)) }

func (b *backend) address(x kernels.Buffer) unsafe.Pointer {
	c := own(x)
	b.keep(c.mem)
	return c.p
}

// keep holds memory until release. Operations in rounds call it repeatedly for the same memory.
func (b *backend) keep(m *memory) {
	b.checkIdle()
	if slices.Contains(b.held, m) {
		return
	}
	if len(b.held) == cap(b.held) {
		panic("cpu: an operation uses too many buffers, or the one before did not defer release")
	}
	b.held = append(b.held, m)
}

// cols is the address of the first element of a window of columns, kept alive until release.
func (b *backend) cols(x kernels.Cols) *C.float { return at(b.f32(x.Buf), x.From) }
