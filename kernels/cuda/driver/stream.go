//go:build gpu

package driver

// #include "cuda.h"
import "C"

import (
	"time"

	"gorgonia.org/cu"
)

// Stream is a queue of work for the card. What is queued is done in order. Read also waits for it; everything else
// returns at once, and what goes wrong is told by a later call.
type Stream struct {
	device *Device
	stream cu.Stream
}

// NewStream makes a queue, which waits for no other unless an Event says so.
func (d *Device) NewStream() (*Stream, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	stream, err := cu.MakeStream(cu.NonBlocking)
	if err = d.leave("making a stream", err); err != nil {
		return nil, err
	}
	s := &Stream{d, stream}
	d.keep(s)
	return s, nil
}

// Close ends the queue; what is in it is still done.
func (s *Stream) Close() error { return s.device.drop(s, "a stream") }

func (s *Stream) count(h *Held, sign int64) { h.Streams += sign }

func (s *Stream) release() error {
	if err := s.device.begin(); err != nil {
		return err
	}
	return s.device.leave("ending a stream", s.stream.Destroy())
}

// Sync waits until all that was queued is done.
func (s *Stream) Sync() error {
	if err := s.device.enter(); err != nil {
		return err
	}
	return s.device.leave("waiting for a stream", s.stream.Synchronize())
}

// Read copies from the card, behind what is queued, and waits for it.
func (s *Stream) Read(to []byte, from Ptr) error {
	if len(to) == 0 {
		return nil
	}
	if err := s.device.enter(); err != nil {
		return err
	}
	return s.device.leave("copying from it", read(s.stream, to, from))
}

// Upload queues a copy of n pinned bytes, the first being number at, to the card.
func (s *Stream) Upload(to Ptr, from *Pinned, at, n int) error {
	source, err := from.within(at, n)
	if err != nil || n == 0 {
		return err
	}
	if err := s.device.enter(); err != nil {
		return err
	}
	return s.device.leave("queueing a copy to it", cu.MemcpyHtoDAsync(cu.DevicePtr(to), source, int64(n), s.stream))
}

// Download queues a copy of n bytes from the card to pinned memory, the first being number at there.
func (s *Stream) Download(to *Pinned, at int, from Ptr, n int) error {
	target, err := to.within(at, n)
	if err != nil || n == 0 {
		return err
	}
	if err := s.device.enter(); err != nil {
		return err
	}
	return s.device.leave("queueing a copy from it", cu.MemcpyDtoHAsync(target, cu.DevicePtr(from), int64(n), s.stream))
}

// Copy queues a copy within the card.
func (s *Stream) Copy(to, from Ptr, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	if err := s.device.enter(); err != nil {
		return err
	}
	return s.device.leave("queueing a copy", cu.MemcpyDtoDAsync(cu.DevicePtr(to), cu.DevicePtr(from), bytes, s.stream))
}

// Fill queues that each of so many bytes is set.
func (s *Stream) Fill(to Ptr, value byte, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	if err := s.device.enter(); err != nil {
		return err
	}
	return s.device.leave("queueing a fill", cu.MemsetD8Async(cu.DevicePtr(to), value, bytes, s.stream))
}

// Event is a place in a stream: other streams and the host can wait for it.
type Event struct {
	device *Device
	event  cu.Event
}

// NewEvent makes an event; one that is timed costs a little more.
func (d *Device) NewEvent(timed bool) (*Event, error) {
	var flags cu.EventFlags
	if !timed {
		flags |= cu.DisableTiming
	}
	if !d.spin {
		flags |= cu.BlockingSyncEvent
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	event, err := cu.MakeEvent(flags)
	if err = d.leave("making an event", err); err != nil {
		return nil, err
	}
	e := &Event{d, event}
	d.keep(e)
	return e, nil
}

// Close ends the event.
func (e *Event) Close() error { return e.device.drop(e, "an event") }

func (e *Event) count(h *Held, sign int64) { h.Events += sign }

func (e *Event) release() error {
	if err := e.device.begin(); err != nil {
		return err
	}
	return e.device.leave("ending an event", cu.DestroyEvent(&e.event))
}

// Record puts the event behind what is queued now.
func (s *Stream) Record(e *Event) error {
	if err := s.device.enter(); err != nil {
		return err
	}
	return s.device.leave("recording an event", e.event.Record(s.stream))
}

// Wait has what is queued from here on wait for the event.
func (s *Stream) Wait(e *Event) error {
	if err := s.device.enter(); err != nil {
		return err
	}
	return s.device.leave("waiting for an event in a stream", s.stream.Wait(e.event, 0))
}

// Sync waits for the event.
func (e *Event) Sync() error {
	if err := e.device.enter(); err != nil {
		return err
	}
	return e.device.leave("waiting for an event", e.event.Synchronize())
}

// Done tells whether the card has come to the event.
func (e *Event) Done() (bool, error) {
	if err := e.device.enter(); err != nil {
		return false, err
	}
	err := e.event.Query()
	if codeOf(err) == C.CUDA_ERROR_NOT_READY {
		return false, e.device.leave("", nil)
	}
	return err == nil, e.device.leave("asking for an event", err)
}

// Since is the time from another event to this one; both are timed, and done.
func (e *Event) Since(earlier *Event) (time.Duration, error) {
	if err := e.device.enter(); err != nil {
		return 0, err
	}
	ms, err := earlier.event.Elapsed(e.event)
	return time.Duration(ms * float64(time.Millisecond)), e.device.leave("asking for the time between events", err)
}
