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

// heap is the memory that a backend has. What Go's collector finds without an owner is freed with the next allocation, on the
// goroutine that queues, so that no address is given away between its being looked up and its being queued.
type heap struct {
	live map[*driver.Memory]struct{}

	mu      sync.Mutex
	orphans []*driver.Memory
}

// take gives memory; where there is none left, after another look for what nobody owns.
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

// freeOrphans waits for what is queued, which may still use them.
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

// allocation is what Alloc gave; all slices of it share it.
type allocation struct {
	memory   *driver.Memory // nil for no numbers
	n        int
	released bool
	sent     []int32 // what the host has put at its start, while nothing else has written there
}

// buffer is numbers on the card.
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

// place is where it begins in what Alloc gave.
func (b buffer) place() int { return int(b.at-b.whole.memory.At) / b.t.Size() }

// send notes what the host puts into it, so that nobody has to wait for what is known.
func (b buffer) send(x []int32) {
	if len(x) == 0 || b.place() > len(b.whole.sent) {
		return
	}
	if end := b.place() + len(x); end > len(b.whole.sent) {
		b.whole.sent = slices.Grow(b.whole.sent, end-len(b.whole.sent))[:end]
	}
	copy(b.whole.sent[b.place():], x)
}

// sent are the first n numbers, if the host has put all of them there.
func (b buffer) sent(n int) ([]int32, bool) {
	if n == 0 || b.place()+n > len(b.whole.sent) {
		return nil, n == 0
	}
	return b.whole.sent[b.place():][:n], true
}

// overwritten is a buffer that a kernel writes to: what the host has put there is no more.
func overwritten(b kernels.Buffer) buffer {
	o := own(b)
	o.whole.sent = nil
	return o
}

// own is a buffer of this backend.
func own(b kernels.Buffer) buffer {
	o, ok := b.(buffer)
	if !ok {
		panic(fmt.Sprintf("cuda: the backend was given a %T, expected a buffer of its own", b))
	}
	return o
}

// at is a buffer's address, as an argument.
func at(b kernels.Buffer) arg { return address(own(b).at) }

// Alloc gives zeros.
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

// Release waits for what is queued, and gives memory back.
func (b *Backend) Release(of kernels.Buffer) {
	o := own(of)
	kernels.CheckRelease(o.n == o.whole.n)
	o.whole.released = true
	if o.whole.memory != nil {
		b.note(b.moves.Sync())
		b.note(b.memory.free(o.whole.memory))
	}
}

// Free is what nobody has of the card's memory.
func (b *Backend) Free() (kernels.Room, bool) {
	free, _, err := b.device.Memory()
	b.note(err)
	return kernels.Room{Bytes: free, Limit: "the memory of " + b.device.Card().String(), Apart: true}, err == nil
}

// Upload copies numbers to the card.
func (b *Backend) Upload(dst kernels.Buffer, src any) {
	o := own(dst)
	if x, ok := src.([]int32); ok {
		o.send(x)
	}
	b.note(b.moves.Upload(o.at, bytesOf(src)))
}

// Fetch queues a copy of numbers from the card.
func (b *Backend) Fetch(dst any, src kernels.Buffer) {
	b.note(b.moves.Fetch(bytesOf(dst), own(src).at))
}

// Download waits for what is queued, and for that.
func (b *Backend) Download(dst any, src kernels.Buffer) error {
	b.Fetch(dst, src)
	return b.Sync()
}

// bytesOf are the bytes of a slice of numbers: card and processor spell them alike.
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

// Zero sets numbers to 0.
func (b *Backend) Zero(dst kernels.Buffer) {
	o := overwritten(dst)
	b.note(b.stream.Fill(o.at, 0, o.bytes()))
}

// Copy copies on the card.
func (b *Backend) Copy(dst, src kernels.Buffer) {
	from := own(src)
	b.note(b.stream.Copy(overwritten(dst).at, from.at, from.bytes()))
}
