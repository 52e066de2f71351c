// Package deferred makes any backend opaque and asynchronous like a device, so that code fails that reads its memory
// directly, or uses a result without waiting for it.
package deferred

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/kernels"
)

// backend queues operations and runs them only when the caller waits. Buffers are handles, whose contents are poison
// until then.
type backend struct {
	b     kernels.Backend
	queue []func()
}

// New wraps b. Its memory starts as NaN and impossible indices: the zeroes that Alloc promises
// are queued like everything else, and the rows of a matrix stay poison until they are written.
func New(b kernels.Backend) kernels.Backend {
	d := &backend{b: b}
	if _, choice := kernels.OrderOf(b); choice {
		return kernels.Checked(ordering{d})
	}
	return kernels.Checked(d)
}

// ordering is a backend with a choice of orders, like the one inside.
type ordering struct{ *backend }

func (d ordering) Sums() kernels.Order {
	o, _ := kernels.OrderOf(d.b)
	return o
}

func (d ordering) Fastest() kernels.Order { return kernels.FastestOrder(d.b) }

// SetSums first runs the queued operations, in the old order.
func (d ordering) SetSums(o kernels.Order) {
	d.run()
	kernels.SetOrder(d.b, o)
}

func (d *backend) Name() string { return "deferred " + d.b.Name() }

func (d *backend) Order() string { return d.b.Order() }

// enqueue queues an operation.
func (d *backend) enqueue(op func()) { d.queue = append(d.queue, op) }

func (d *backend) run() {
	queue := d.queue
	d.queue = nil
	for _, op := range queue {
		op()
	}
}

// handle is elements [from, to) of a buffer that only its owner can reach.
type handle struct {
	owner    *backend
	whole    kernels.Buffer
	from, to int
	released *bool // of all handles of the buffer
}

func (h *handle) DType() kernels.DType { return h.whole.DType() }
func (h *handle) Len() int             { return h.to - h.from }

func (h *handle) Slice(from, to int) kernels.Buffer {
	kernels.CheckSlice(h.Len(), from, to)
	return &handle{h.owner, h.whole, h.from + from, h.from + to, h.released}
}

func (h *handle) Released() bool { return *h.released }

// matrixHandle is a matrix that only its owner can reach.
type matrixHandle struct {
	owner *backend
	m     kernels.Matrix
}

func (h *matrixHandle) DType() kernels.DType { return h.m.DType() }
func (h *matrixHandle) Rows() int            { return h.m.Rows() }
func (h *matrixHandle) Cols() int            { return h.m.Cols() }
func (h *matrixHandle) Bytes() int           { return h.m.Bytes() }
func (h *matrixHandle) Compressed() bool     { return h.m.Compressed() }

// in is the buffer of a handle; nil, for an optional operand, stays nil.
func (d *backend) in(b kernels.Buffer) kernels.Buffer {
	if b == nil {
		return nil
	}
	h, ok := b.(*handle)
	if !ok || h.owner != d {
		panic(fmt.Sprintf("deferred: %s was given a buffer (%T) of another backend", d.Name(), b))
	}
	return h.whole.Slice(h.from, h.to)
}

func (d *backend) cols(c kernels.Cols) kernels.Cols {
	c.Buf = d.in(c.Buf)
	return c
}

func (d *backend) matrix(m kernels.Matrix) kernels.Matrix {
	h, ok := m.(*matrixHandle)
	if !ok || h.owner != d {
		panic(fmt.Sprintf("deferred: %s was given a matrix (%T) of another backend", d.Name(), m))
	}
	return h.m
}

// poison is the content of memory that was never written.
var poison = math.Float32frombits(0x7fc00000)

func (d *backend) Alloc(t kernels.DType, n int) (kernels.Buffer, error) {
	b, err := d.b.Alloc(t, n)
	if err != nil {
		return nil, err
	}
	switch t {
	case kernels.F32:
		d.b.Upload(b, slices.Repeat([]float32{poison}, n))
	case kernels.I32:
		d.b.Upload(b, slices.Repeat([]int32{math.MinInt32}, n))
	case kernels.F64:
		d.b.Upload(b, slices.Repeat([]float64{math.NaN()}, n))
	}
	d.enqueue(func() { d.b.Zero(b) })
	return &handle{d, b, 0, n, new(bool)}, nil
}

func (d *backend) Release(b kernels.Buffer) {
	d.in(b)
	h := b.(*handle)
	kernels.CheckRelease(h.Len() == h.whole.Len())
	*h.released = true
	d.enqueue(func() { d.b.Release(h.whole) })
}

func (d *backend) Free() (kernels.Room, bool) { return d.b.Free() }

func (d *backend) NewMatrix(t kernels.DType, rows, cols int) (kernels.Matrix, error) {
	m, err := d.b.NewMatrix(t, rows, cols)
	if err != nil {
		return nil, err
	}
	word, encoding := binary.LittleEndian.AppendUint32(nil, math.Float32bits(poison)), kernels.EncodedF32
	if t != kernels.F32 {
		word, encoding = word[2:], kernels.EncodedBF16
	}
	poisoned := kernels.HostRows{Encoding: encoding, Bytes: slices.Repeat(word, cols)}
	for r := range rows {
		d.b.Load(m, r, poisoned)
	}
	return &matrixHandle{d, m}, nil
}

func (d *backend) Upload(dst kernels.Buffer, src any) {
	to := d.in(dst)
	switch s := src.(type) {
	case []float32:
		src = slices.Clone(s)
	case []int32:
		src = slices.Clone(s)
	case []float64:
		src = slices.Clone(s)
	}
	d.enqueue(func() { d.b.Upload(to, src) })
}

func (d *backend) Fetch(dst any, src kernels.Buffer) {
	from := d.in(src)
	d.enqueue(func() { d.b.Fetch(dst, from) })
}

func (d *backend) Download(dst any, src kernels.Buffer) error {
	d.Fetch(dst, src)
	return d.Sync()
}

func (d *backend) Zero(dst kernels.Buffer) {
	to := d.in(dst)
	d.enqueue(func() { d.b.Zero(to) })
}

func (d *backend) Copy(dst, src kernels.Buffer) {
	to, from := d.in(dst), d.in(src)
	d.enqueue(func() { d.b.Copy(to, from) })
}

func (d *backend) Load(m kernels.Matrix, row int, src kernels.HostRows) {
	to := d.matrix(m)
	src.Bytes = slices.Clone(src.Bytes)
	d.enqueue(func() { d.b.Load(to, row, src) })
}

func (d *backend) Pack(m kernels.Matrix, row int, src kernels.Buffer) {
	to, from := d.matrix(m), d.in(src)
	d.enqueue(func() { d.b.Pack(to, row, from) })
}

// Compress first runs the queued operations, since the matrix must be complete.
func (d *backend) Compress(m kernels.Matrix) error {
	w := d.matrix(m)
	d.run()
	return d.b.Compress(w)
}

func (d *backend) Unpack(dst kernels.Buffer, m kernels.Matrix) {
	to, from := d.in(dst), d.matrix(m)
	d.enqueue(func() { d.b.Unpack(to, from) })
}

func (d *backend) Sync() error {
	d.run()
	return d.b.Sync()
}

func (d *backend) Close() error { return errors.Join(d.Sync(), d.b.Close()) }
