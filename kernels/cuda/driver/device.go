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
	// Spin has a goroutine that waits for the card ask it over and over: it learns some 20 µs sooner that the card is
	// done, and takes a whole core for it. Without, it sleeps, since what the processors do meanwhile, programs of a
	// sandbox above all, is worth more than those microseconds in the milliseconds of a step.
	Spin bool
}

// Device is a card that is in use: its primary context, and what was made in it.
type Device struct {
	card    Card
	device  cu.Device
	context cu.CUContext
	number  uint64 // of all that this process has opened, from 1 on
	spin    bool

	lost     atomic.Pointer[Error]    // the first error that lasts
	launched atomic.Pointer[Function] // the last

	closed atomic.Bool
	mu     sync.Mutex
	held   map[resource]struct{} // what has to be given back
	sum    Held                  // of it
}

// openings counts devices, so that a thread that had the context of one does not take it for that of the next.
var openings atomic.Uint64

// Open takes a card into use. Close gives it back.
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
	card, device, err := look(index)
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

// Card is what the device is, with what was free when it was opened.
func (d *Device) Card() Card { return d.card }

// Memory is what the card has free now, and has in all.
func (d *Device) Memory() (free, total int64, err error) {
	if err := d.enter(); err != nil {
		return 0, 0, err
	}
	free, total, err = cu.MemInfo()
	return free, total, d.leave("asking for its free memory", err)
}

// Sync waits for everything that was queued on the card.
func (d *Device) Sync() error {
	if err := d.enter(); err != nil {
		return err
	}
	return d.leave("waiting for it", cu.Synchronize())
}

// enter makes the context current for the calling goroutine. Each enter without an error has its leave.
func (d *Device) enter() error {
	if err := d.usable(); err != nil {
		return err
	}
	return d.begin()
}

// usable tells of a device that is closed or lost.
func (d *Device) usable() error {
	if d.closed.Load() {
		return fmt.Errorf("%s: used after it was closed", d.card)
	}
	if lost := d.lost.Load(); lost != nil {
		return lost
	}
	return nil
}

// begin is enter, also while the device is being closed.
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

// leave ends what enter began, and says what became of it. What is done is a constant, so that a call without an error
// costs nothing for it.
func (d *Device) leave(doing string, err error) error {
	runtime.UnlockOSThread()
	if err == nil {
		return nil
	}
	return d.failed(doing, err)
}

// failed is an error of a call, and keeps the first one that lasts.
func (d *Device) failed(doing string, err error) error {
	failure := cardError(d.card, doing, err)
	if f := d.launched.Load(); f != nil {
		failure.Launched = f.name
	}
	if lasting(failure.Code) && !d.lost.CompareAndSwap(nil, failure) {
		return d.lost.Load()
	}
	return failure
}
