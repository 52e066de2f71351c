//go:build gpu

package driver

// #include "cuda.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"gorgonia.org/cu"
)

// Options are how a card is used.
type Options struct {
	// Spin makes waits for the card spin: they end some 20 µs sooner, but occupy a core. Otherwise waits block, since
	// the work of the CPU in the meantime, programs of a sandbox above all, is worth more than these microseconds in a
	// step of milliseconds.
	Spin bool
}

// Device is an open card: its primary context and the resources in it.
type Device struct {
	card    Card
	device  cu.Device
	context cu.CUContext
	number  uint64 // counts the devices that this process has opened, from 1
	spin    bool

	lost     atomic.Pointer[Error]    // the first sticky error
	launched atomic.Pointer[Function] // the last kernel launched

	closed  atomic.Bool
	mu      sync.Mutex
	held    map[resource]struct{} // resources that were not released yet
	heldSum Held                  // of held
}

// openings numbers the devices that are opened, so that a thread does not take the context of a closed device for that of a later one.
var openings atomic.Uint64

// Open opens a card. Close releases it.
func Open(index int, o Options) (*Device, error) {
	driver, err := library()
	if err != nil {
		return nil, err
	}
	count, err := cu.NumDevices()
	switch {
	case err != nil:
		return nil, startError(driver.Library, codeOf(err))
	case count == 0:
		return nil, startError(driver.Library, C.CUDA_ERROR_NO_DEVICE)
	case index < 0 || index >= count:
		if count == 1 {
			return nil, unusable(NoDevice, "cuda:%d: there is one card here; expected cuda:0", index)
		}
		return nil, unusable(NoDevice, "cuda:%d: expected one of the %d cards here, cuda:0 to cuda:%d", index, count, count-1)
	}
	card, device, err := queryCard(index)
	if err == nil {
		err = card.Trouble
	}
	if err != nil {
		return nil, err
	}
	flags := cu.SchedBlockingSync
	if o.Spin {
		flags = cu.SchedSpin
	}
	if err := device.SetPrimaryCtxFlags(flags); err != nil {
		return nil, cardError(card, "setting how it is waited for", err)
	}
	d := &Device{card: card, device: device, number: openings.Add(1), spin: o.Spin, held: map[resource]struct{}{}}
	if d.context, err = device.RetainPrimaryCtx(); err != nil {
		return nil, contextError(card, err)
	}
	if d.card.Free, _, err = d.Memory(); err != nil {
		return nil, errors.Join(err, device.ReleasePrimaryCtx())
	}
	return d, nil
}

// Card describes the device; its Free is the memory that was free when the device was opened.
func (d *Device) Card() Card { return d.card }

// Memory returns the free and the total memory of the card.
func (d *Device) Memory() (free, total int64, err error) {
	if err := d.enter(); err != nil {
		return 0, 0, err
	}
	free, total, err = cu.MemInfo()
	return free, total, d.leave("asking for its free memory", err)
}

// Sync waits for all work queued on the card.
func (d *Device) Sync() error {
	if err := d.enter(); err != nil {
		return err
	}
	return d.leave("waiting for it", cu.Synchronize())
}

// enter locks the goroutine to its thread and makes the context current. If it succeeds, leave must follow.
func (d *Device) enter() error {
	if err := d.usable(); err != nil {
		return err
	}
	return d.begin()
}

// usable returns an error if the device is closed or lost.
func (d *Device) usable() error {
	if d.closed.Load() {
		return fmt.Errorf("%s: used after it was closed", d.card)
	}
	if lost := d.lost.Load(); lost != nil {
		return lost
	}
	return nil
}

// begin is enter without the check for a closed device, for Close and what it releases.
func (d *Device) begin() error {
	if lost := d.lost.Load(); lost != nil {
		return lost
	}
	runtime.LockOSThread()
	if err := enterContext(d.context, d.number); err != nil {
		return d.leave("setting the context", err)
	}
	return nil
}

// leave unlocks what enter locked, and converts the error of the call. doing should be a constant, so that a successful
// call does not format it.
func (d *Device) leave(doing string, err error) error {
	runtime.UnlockOSThread()
	if err == nil {
		return nil
	}
	return d.failed(doing, err)
}

// failed converts the error of a call. After a sticky error the card is lost, and every call returns the first such error.
func (d *Device) failed(doing string, err error) error {
	failure := cardError(d.card, doing, err)
	if f := d.launched.Load(); f != nil {
		failure.Launched = f.name
	}
	if sticky(failure.Code) && !d.lost.CompareAndSwap(nil, failure) {
		return d.lost.Load()
	}
	return failure
}
