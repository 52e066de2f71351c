//go:build gpu

package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// heap is the memory of a backend. The cleanup of an unreachable buffer only lists its memory as an orphan; the next allocation frees it,
// on the goroutine that queues work. So no memory is freed between the look-up of its address and the launch that uses it.
type heap struct {
	live map[*driver.Memory]struct{} // all that is not freed, orphans included

	mu      sync.Mutex
	orphans []*driver.Memory
}

// take allocates memory. If none is left, it collects garbage, because unreachable buffers may hold some, and tries again.
func (h *heap) take(b *Backend, bytes int64) (*driver.Memory, error) {
	if err := h.freeOrphans(b.moves); err != nil {
		return nil, err
	}
	m, err := b.device.Alloc(bytes)
	for wait := time.Millisecond; errors.Is(err, driver.ErrMemory) && wait < time.Second; wait *= 2 {
		runtime.GC()
		time.Sleep(wait) // cleanups run after the collection
		if err := h.freeOrphans(b.moves); err != nil {
			return nil, err
		}
		m, err = b.device.Alloc(bytes)
	}
	if err != nil {
		return nil, err
	}
	h.live[m] = struct{}{}
	return m, nil
}

func (h *heap) free(m *driver.Memory) error {
	delete(h.live, m)
	return m.Free()
}

func (h *heap) orphan(m *driver.Memory) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.orphans = append(h.orphans, m)
}

// freeOrphans frees unreachable memory, after it has waited for queued work that may still use it.
func (h *heap) freeOrphans(t *driver.Transfers) error {
	h.mu.Lock()
	orphans := h.orphans
	h.orphans = nil
	h.mu.Unlock()
	if len(orphans) == 0 {
		return nil
	}
	failures := []error{t.Sync()}
	for _, m := range orphans {
		if _, live := h.live[m]; live {
			failures = append(failures, h.free(m))
		}
	}
	return errors.Join(failures...)
}

func (h *heap) freeAll() error {
	var failures []error
	for m := range h.live {
		failures = append(failures, h.free(m))
	}
	return errors.Join(failures...)
}

// allocation is the memory of an Alloc, which all slices of its buffer share.
type allocation struct {
	memory   *driver.Memory // nil if n is 0
	n        int
	released bool
	uploaded []int32 // a copy of what the host uploaded to its start, until a kernel overwrites it
}

// buffer is a slice of an allocation.
type buffer struct {
	whole *allocation
	t     kernels.DType
	at    ptr
	n     int
}

func (b buffer) DType() kernels.DType { return b.t }
func (b buffer) Len() int             { return b.n }
func (b buffer) Released() bool       { return b.whole.released }

func (b buffer) Slice(from, to int) kernels.Buffer {
	kernels.CheckSlice(b.n, from, to)
	return buffer{b.whole, b.t, b.at + ptr(from*b.t.Size()), to - from}
}

func (b buffer) bytes() int64 { return int64(b.n * b.t.Size()) }

// offset is the index of the buffer's first element in its allocation.
func (b buffer) offset() int { return int(b.at-b.whole.memory.At) / b.t.Size() }

// rememberUpload keeps a copy of an upload, so that LogProb need not wait for the card to read targets that the host has uploaded.
func (b buffer) rememberUpload(x []int32) {
	if len(x) == 0 || b.offset() > len(b.whole.uploaded) {
		return
	}
	if end := b.offset() + len(x); end > len(b.whole.uploaded) {
		b.whole.uploaded = slices.Grow(b.whole.uploaded, end-len(b.whole.uploaded))[:end]
	}
	copy(b.whole.uploaded[b.offset():], x)
}

// uploaded returns the first n elements, if the host uploaded all of them.
func (b buffer) uploaded(n int) ([]int32, bool) {
	if n == 0 || b.offset()+n > len(b.whole.uploaded) {
		return nil, n == 0
	}
	return b.whole.uploaded[b.offset():][:n], true
}

// forWriting returns the buffer for an operation that writes to it, and discards the copy of uploads, which will be out of date.
func forWriting(b kernels.Buffer) buffer {
	o := own(b)
	o.whole.uploaded = nil
	return o
}

// own converts a buffer, which must be one of this backend.
func own(b kernels.Buffer) buffer {
	o, ok := b.(buffer)
	if !ok {
		panic(fmt.Sprintf("cuda: the backend was given a %T, expected a buffer of its own", b))
	}
	return o
}

// at is the address of a buffer as an argument.
func at(b kernels.Buffer) arg { return address(own(b).at) }

// Alloc allocates a buffer of zeros.
func (b *Backend) Alloc(t kernels.DType, n int) (kernels.Buffer, error) {
	whole := &allocation{n: n}
	if n == 0 {
		return buffer{whole: whole, t: t}, nil
	}
	bytes := int64(n * t.Size())
	m, err := b.memory.take(b, bytes)
	if err != nil {
		return nil, err
	}
	if err := b.stream.Fill(m.At, 0, bytes); err != nil {
		return nil, errors.Join(err, b.memory.free(m))
	}
	whole.memory = m
	runtime.AddCleanup(whole, b.memory.orphan, m)
	return buffer{whole, t, m.At, n}, nil
}

// Release waits for queued work, which may use the memory, and frees it.
func (b *Backend) Release(of kernels.Buffer) {
	o := own(of)
	kernels.CheckRelease(o.n == o.whole.n)
	o.whole.released = true
	if o.whole.memory != nil {
		b.note(b.moves.Sync())
		b.note(b.memory.free(o.whole.memory))
	}
}

// Free is the free memory of the card.
func (b *Backend) Free() (kernels.Room, bool) {
	free, _, err := b.device.Memory()
	b.note(err)
	return kernels.Room{Bytes: free, Limit: "the memory of " + b.device.Card().String(), GPU: true}, err == nil
}

// Upload copies a slice to the card.
func (b *Backend) Upload(dst kernels.Buffer, src any) {
	o := own(dst)
	if x, ok := src.([]int32); ok {
		o.rememberUpload(x)
	}
	b.note(b.moves.Upload(o.at, bytesOf(src)))
}

// Fetch queues a copy from the card; dst is valid after the next Sync.
func (b *Backend) Fetch(dst any, src kernels.Buffer) {
	b.note(b.moves.Fetch(bytesOf(dst), own(src).at))
}

// Download copies from the card and waits for all queued work.
func (b *Backend) Download(dst any, src kernels.Buffer) error {
	b.Fetch(dst, src)
	return b.Sync()
}

// bytesOf returns the bytes of a slice of numbers without a conversion: card and host have the same byte order.
func bytesOf(numbers any) []byte {
	switch x := numbers.(type) {
	case []float32:
		return raw(x)
	case []int32:
		return raw(x)
	case []float64:
		return raw(x)
	}
	panic(fmt.Sprintf("cuda: numbers are %T", numbers))
}

func raw[E float32 | float64 | int32](x []E) []byte {
	var one E
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(one)))
}

// Zero sets a buffer to 0.
func (b *Backend) Zero(dst kernels.Buffer) {
	o := forWriting(dst)
	b.note(b.stream.Fill(o.at, 0, o.bytes()))
}

// Copy copies on the card.
func (b *Backend) Copy(dst, src kernels.Buffer) {
	from := own(src)
	b.note(b.stream.Copy(forWriting(dst).at, from.at, from.bytes()))
}
