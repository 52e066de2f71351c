//go:build gpu

package driver

// #include "cuda.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"gorgonia.org/cu"
)

// Ptr is an address in device memory.
type Ptr uint64

// Memory is an allocation of device memory.
type Memory struct {
	At    Ptr
	Bytes int64

	device *Device
}

// Alloc allocates device memory, aligned to 256 bytes and not initialised.
func (d *Device) Alloc(bytes int64) (*Memory, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("%s: an allocation of %d bytes, expected more than 0", d.card, bytes)
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	at, err := cu.MemAlloc(bytes)
	if err = d.leave("allocating", err); err != nil {
		return nil, d.outOfMemory(bytes, err)
	}
	m := &Memory{Ptr(at), bytes, d}
	d.keep(m)
	return m, nil
}

// outOfMemory adds to the error of an allocation its size and the free and total memory.
func (d *Device) outOfMemory(bytes int64, err error) error {
	var refused *Error
	if !errors.As(err, &refused) || !errors.Is(err, ErrMemory) {
		return err
	}
	free, total, _ := d.Memory() // zeros if that fails, too
	refused.Doing = fmt.Sprintf("allocating %s where %s of %s are free", size(bytes), size(free), size(total))
	return refused
}

// Free frees the memory, which queued work must no longer use.
func (m *Memory) Free() error { return m.device.drop(m, "memory") }

func (m *Memory) count(h *Held, sign int64) {
	h.Allocations, h.Bytes = h.Allocations+sign, h.Bytes+sign*m.Bytes
}

func (m *Memory) release() error {
	if err := m.device.begin(); err != nil {
		return err
	}
	return m.device.leave("freeing memory", cu.MemFree(cu.DevicePtr(m.At)))
}

// Pinned is page-locked host memory, which the card reads and writes by DMA while the CPU goes on.
type Pinned struct {
	bytes  []byte
	device *Device
}

// Pin allocates pinned memory of zeros. The system can neither swap it out nor give it to another program, so allocate little.
func (d *Device) Pin(bytes int) (*Pinned, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("%s: a pinned allocation of %d bytes, expected more than 0", d.card, bytes)
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	at, err := allocHost(bytes)
	if err = d.leave("allocating pinned memory", err); err != nil {
		return nil, err
	}
	p := &Pinned{unsafe.Slice((*byte)(at), bytes), d}
	clear(p.bytes)
	d.keep(p)
	return p, nil
}

// Bytes is the memory, valid until Free. Bytes that a stream copies must not be touched before the copy is done.
func (p *Pinned) Bytes() []byte { return p.bytes }

// Free frees the memory.
func (p *Pinned) Free() error { return p.device.drop(p, "pinned memory") }

func (p *Pinned) count(h *Held, sign int64) {
	h.Pins, h.Pinned = h.Pins+sign, h.Pinned+sign*int64(len(p.bytes))
}

func (p *Pinned) release() error {
	if err := p.device.begin(); err != nil {
		return err
	}
	return p.device.leave("freeing pinned memory", cu.MemFreeHost(unsafe.Pointer(&p.bytes[0])))
}

// within returns the address of bytes [from, from+n) of the pinned memory.
func (p *Pinned) within(from, n int) (unsafe.Pointer, error) {
	if from < 0 || n < 0 || from+n > len(p.bytes) {
		return nil, fmt.Errorf("%s: bytes %d to %d of pinned memory of %d", p.device.card, from, from+n, len(p.bytes))
	}
	return unsafe.Pointer(unsafe.SliceData(p.bytes[from:])), nil
}

// size formats a number of bytes for messages.
func size(bytes int64) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", bytes)
}
