//go:build gpu

package driver

// #include "cuda.h"
import "C"

import (
	"time"

	"gorgonia.org/cu"
)

// Stream is a queue of work for the card, which is done in order. Read and Sync wait for it; the other methods return at
// once, and a later call returns the errors of the work.
type Stream struct {
	device *Device
	stream cu.Stream
}

// NewStream makes a stream. Only an Event makes it wait for other streams.
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

// Close destroys the stream; work in it is still done.
func (s *Stream) Close() error { return s.device.drop(s, "a stream") }

func (s *Stream) count(h *Held, sign int64) { h.Streams += sign }

func (s *Stream) release() error {
	if err := s.device.begin(); err != nil {
		return err
	}
	return s.device.leave("ending a stream", s.stream.Destroy())
}

// Sync waits until all queued work is done.
func (s *Stream) Sync() error {
	if err := s.device.enter(); err != nil {
		return err
	}
	return s.device.leave("waiting for a stream", s.stream.Synchronize())
}

// Read queues a copy from the card and waits for it.
func (s *Stream) Read(to []byte, from Ptr) error {
	if len(to) == 0 {
		return nil
	}
	if err := s.device.enter(); err != nil {
		return err
	}
	return s.device.leave("copying from it", read(s.stream, to, from))
}

// Upload queues a copy of the pinned bytes [at, at+n) to the card.
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

// Download queues a copy of n bytes from the card to the pinned bytes [at, at+n).
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

// Fill queues setting each byte to a value.
func (s *Stream) Fill(to Ptr, value byte, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	if err := s.device.enter(); err != nil {
		return err
	}
	return s.device.leave("queueing a fill", cu.MemsetD8Async(cu.DevicePtr(to), value, bytes, s.stream))
}

// Event marks a point in a stream, for which other streams and the host can wait.
type Event struct {
	device *Device
	event  cu.Event
}

// NewEvent makes an event. A timed one costs a little more.
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

// Close destroys the event.
func (e *Event) Close() error { return e.device.drop(e, "an event") }

func (e *Event) count(h *Held, sign int64) { h.Events += sign }

func (e *Event) release() error {
	if err := e.device.begin(); err != nil {
		return err
	}
	return e.device.leave("ending an event", cu.DestroyEvent(&e.event))
}

// Record puts the event after the work that is queued now.
func (s *Stream) Record(e *Event) error {
	if err := s.device.enter(); err != nil {
		return err
	}
	return s.device.leave("recording an event", e.event.Record(s.stream))
}

// Wait makes work that is queued from now on wait for the event.
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

// Done reports whether the card has reached the event.
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

// Since is the time from an earlier event to this one. Both must be timed and done.
func (e *Event) Since(earlier *Event) (time.Duration, error) {
	if err := e.device.enter(); err != nil {
		return 0, err
	}
	ms, err := earlier.event.Elapsed(e.event)
	return time.Duration(ms * float64(time.Millisecond)), e.device.leave("asking for the time between events", err)
}
