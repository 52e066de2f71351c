//go:build gpu

package driver

import "errors"

// line is the alignment of transfers in pinned memory: a cache line.
const line = 64

// Transfers copy between ordinary host memory and the card through pinned memory, in the order of a stream. Only one goroutine may use
// them at a time.
//
// Uploads go through a ring of slots. The copies of a full slot are followed by an event, and the slot is reused when the card has
// reached it. So an upload waits only if the card has not yet copied any slot of the ring.
type Transfers struct {
	stream *Stream

	ring []slot
	now  int // the index of the slot being filled
	used int // bytes used of that slot

	landing *Pinned
	landed  int // bytes of landing that are reserved
	coming  []arrival
}

// slot is a buffer of the ring.
type slot struct {
	pinned *Pinned
	taken  *Event // the card has copied the slot
	queued bool   // taken is recorded, and nobody has waited for it yet
}

// arrival is a queued copy to landing[at:], which Sync will move to to.
type arrival struct {
	to []byte
	at int
}

// NewTransfers allocates the pinned memory for transfers of a stream.
func (s *Stream) NewTransfers() (*Transfers, error) {
	return s.newTransfers(stagingSlots, stagingBytes, landingBytes)
}

func (s *Stream) newTransfers(slots, bytes, landing int) (*Transfers, error) {
	t := &Transfers{stream: s, ring: make([]slot, slots)}
	err := t.take(bytes, landing)
	switch {
	case err == nil:
		return t, nil
	case errors.Is(err, ErrLost): // the memory is lost, too
		return nil, err
	}
	return nil, errors.Join(err, t.Close())
}

// take allocates the memory and the events.
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

// Close frees the pinned memory. No transfer may be in progress.
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

// Upload queues a copy to the card. The caller may reuse the bytes when it returns.
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

// turn goes on to the next slot, after it has waited for the card to copy that.
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

// Fetch queues a copy from the card; the bytes are valid after the next Sync. A copy larger than landing is waited for at once.
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

// Sync waits until all queued work is done, and delivers the fetched bytes.
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
	clear(t.coming) // drop the references to the callers' memory
	t.coming, t.landed = t.coming[:0], 0
	return err
}
