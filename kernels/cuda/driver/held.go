//go:build gpu

package driver

import (
	"errors"
	"fmt"
	"strings"

	"gorgonia.org/cu"
)

// Held counts the resources of a card that have not been released.
type Held struct {
	Allocations, Bytes int64 // of device memory
	Pins, Pinned       int64 // of host memory, and its bytes
	Streams, Events    int64
	Modules            int64
}

func (h Held) String() string {
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{
		{h.Allocations, "allocations (" + size(h.Bytes) + ")"},
		{h.Pins, "pinned allocations (" + size(h.Pinned) + ")"},
		{h.Streams, "streams"},
		{h.Events, "events"},
		{h.Modules, "modules"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// Leak lists the resources that were not released before Close, which released them itself.
type Leak struct {
	Card Card
	Held Held
}

func (l *Leak) Error() string { return fmt.Sprintf("%s: closed with %s still held", l.Card, l.Held) }

// resource is something that must be released: a pointer to a type of this package.
type resource interface {
	count(h *Held, sign int64) // adds it to h, or subtracts it
	release() error            // calls the driver
}

// Held returns the resources that have not been released.
func (d *Device) Held() Held {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.heldSum
}

// keep records a resource.
func (d *Device) keep(r resource) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held[r] = struct{}{}
	r.count(&d.heldSum, 1)
}

// drop releases a resource. A second release is an error, because its address may belong to another resource by then.
func (d *Device) drop(r resource, what string) error {
	d.mu.Lock()
	_, known := d.held[r]
	if known {
		delete(d.held, r)
		r.count(&d.heldSum, -1)
	}
	d.mu.Unlock()
	if !known {
		return fmt.Errorf("%s: %s is given back twice", d.card, what)
	}
	return r.release()
}

// Close waits for the card and releases it with all its resources; if some had not been released, the error is a *Leak.
// On a lost card there is nothing to release, and no error: its users have had that error already.
func (d *Device) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	var failures []error
	if err := d.begin(); err == nil {
		failures = append(failures, d.leave("waiting for its end", cu.Synchronize()))
	}
	d.mu.Lock()
	left, sum := d.held, d.heldSum
	d.held, d.heldSum = nil, Held{}
	d.mu.Unlock()
	for r := range left {
		failures = append(failures, r.release())
	}
	err := d.device.ReleasePrimaryCtx()
	if d.lost.Load() != nil {
		return nil
	}
	if err != nil {
		failures = append(failures, d.failed("giving it back", err))
	}
	if len(left) > 0 {
		failures = append(failures, &Leak{d.card, sum})
	}
	return errors.Join(failures...)
}
