//go:build gpu

package driver

import "errors"

// line is what transfers begin at multiples of in pinned memory: a line of a cache.
const line = 64

// Transfers carry bytes between ordinary memory of the host and the card by way of pinned memory, in the order of a stream. They are
// used by one goroutine at a time.
//
// Uploads go through a ring of slots. A slot that is full has an event behind its copies, and is written again when the card has come
// to that; so an upload waits only where the ring is full of what the card has not yet taken.
type Transfers struct {
	stream *Stream

	ring []slot
	now  int // the slot that is being filled
	used int // bytes of it

	landing *Pinned
	landed  int // bytes of it that are spoken for
	coming  []arrival
}

// slot is a part of the ring.
type slot struct {
	pinned *Pinned
	taken  *Event // by the card
	queued bool   // behind copies that nobody has waited for
}

// arrival is what lands at some place of the landing, and where it goes when it is there.
type arrival struct {
	to []byte
	at int
}

// NewTransfers takes pinned memory for a stream.
func (s *Stream) NewTransfers() (*Transfers, error) {
	return s.newTransfers(stagingSlots, stagingBytes, landingBytes)
}

func (s *Stream) newTransfers(slots, bytes, landing int) (*Transfers, error) {
	t := &Transfers{stream: s, ring: make([]slot, slots)}
	err := t.take(bytes, landing)
	switch {
	case err == nil:
		return t, nil
	case errors.Is(err, ErrLost): // and so is what was taken
		return nil, err
	}
	return nil, errors.Join(err, t.Close())
}

// take takes the memory, and what it is guarded by.
func (t *Transfers) take(bytes, landing int) (err error) {
	d := t.stream.device
	for i := range t.ring {
		if t.ring[i].pinned, err = d.Pin(bytes); err != nil {
			return err
		}
		if t.ring[i].taken, err = d.NewEvent(false); err != nil {
			return err
		}
	}
	t.landing, err = d.Pin(landing)
	return err
}

// Close gives the pinned memory back, for which nothing may be under way.
func (t *Transfers) Close() error {
	var failures []error
	for _, s := range t.ring {
		if s.pinned != nil {
			failures = append(failures, s.pinned.Free())
		}
		if s.taken != nil {
			failures = append(failures, s.taken.Close())
		}
	}
	if t.landing != nil {
		failures = append(failures, t.landing.Free())
	}
	return errors.Join(failures...)
}

// Upload copies to the card, behind what is queued. The bytes are the caller's again when it returns.
func (t *Transfers) Upload(to Ptr, from []byte) error {
	for len(from) > 0 {
		s := &t.ring[t.now]
		if t.used >= len(s.pinned.bytes) {
			if err := t.turn(); err != nil {
				return err
			}
			continue
		}
		n := copy(s.pinned.bytes[t.used:], from)
		if err := t.stream.Upload(to, s.pinned, t.used, n); err != nil {
			return err
		}
		from, to = from[n:], to+Ptr(n)
		t.used += (n + line - 1) / line * line
	}
	return nil
}

// turn goes on to the next slot, when the card has taken what is in it.
func (t *Transfers) turn() error {
	full := &t.ring[t.now]
	if err := t.stream.Record(full.taken); err != nil {
		return err
	}
	full.queued = true
	t.now, t.used = (t.now+1)%len(t.ring), 0
	next := &t.ring[t.now]
	if !next.queued {
		return nil
	}
	next.queued = false
	return next.taken.Sync()
}

// Fetch copies from the card, behind what is queued: the bytes are there after the next Sync. What is larger than the landing is waited
// for.
func (t *Transfers) Fetch(to []byte, from Ptr) error {
	switch {
	case len(to) == 0:
		return nil
	case len(to) > len(t.landing.bytes):
		return t.stream.Read(to, from)
	case t.landed+len(to) > len(t.landing.bytes):
		if err := t.Sync(); err != nil {
			return err
		}
	}
	if err := t.stream.Download(t.landing, t.landed, from, len(to)); err != nil {
		return err
	}
	t.coming = append(t.coming, arrival{to, t.landed})
	t.landed += (len(to) + line - 1) / line * line
	return nil
}

// Sync waits until all that was queued is done, and hands over what was fetched.
func (t *Transfers) Sync() error {
	err := t.stream.Sync()
	if err == nil {
		for _, a := range t.coming {
			copy(a.to, t.landing.bytes[a.at:])
		}
		for i := range t.ring {
			t.ring[i].queued = false
		}
		t.now, t.used = 0, 0
	}
	clear(t.coming) // they are the caller's
	t.coming, t.landed = t.coming[:0], 0
	return err
}
