//go:build gpu

package driver

import (
	"errors"
	"fmt"
	"strings"

	"gorgonia.org/cu"
)

// Held is what was made on a card and not given back.
type Held struct {
	Allocations, Bytes int64 // of memory on the card
	Pins, Pinned       int64 // of memory of the host, and its bytes
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

// Leak is what Close found that nobody had given back. It has given it back itself.
type Leak struct {
	Card Card
	Held Held
}

func (l *Leak) Error() string { return fmt.Sprintf("%s: closed with %s still held", l.Card, l.Held) }

// resource is what has to be given back: a pointer to something of this package.
type resource interface {
	count(h *Held, sign int64) // adds or takes away what it is
	release() error            // makes the call
}

// Held counts what was made and not given back.
func (d *Device) Held() Held {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sum
}

// keep puts a resource on the list.
func (d *Device) keep(r resource) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held[r] = struct{}{}
	r.count(&d.sum, 1)
}

// drop gives a resource back. A second time is an error, since its address may be somebody else's by then.
func (d *Device) drop(r resource, what string) error {
	d.mu.Lock()
	_, known := d.held[r]
	if known {
		delete(d.held, r)
		r.count(&d.sum, -1)
	}
	d.mu.Unlock()
	if !known {
		return fmt.Errorf("%s: %s is given back twice", d.card, what)
	}
	return r.release()
}

// Close waits for the card, and gives back it and all that was made on it; what others forgot to give back is a *Leak.
// On a card that is lost there is nothing to give back, and no error: whoever used it was told.
func (d *Device) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	var failures []error
	if err := d.begin(); err == nil {
		failures = append(failures, d.leave("waiting for its end", cu.Synchronize()))
	}
	d.mu.Lock()
	left, sum := d.held, d.sum
	d.held, d.sum = nil, Held{}
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
