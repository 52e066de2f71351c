//go:build gpu

package driver

import "errors"

// cacheLine is the alignment of transfers in pinned memory.
const cacheLine = 64

// Transfers copy between ordinary host memory and the card through pinned memory, in the order of a stream. Only one goroutine may use
// them at a time.
//
// Uploads go through a ring of slots. When a slot is full, an event is recorded after its copies, and the slot is reused when the card has
// reached the event. So an upload waits only if all slots are full and the card has not yet copied the oldest.
type Transfers struct {
	stream *Stream

	ring    []slot
	current int // the index of the slot being filled
	used    int // bytes used of that slot

	landing *Pinned
	landed  int // bytes of landing that are taken
	fetches []fetch
}

// slot is a buffer of the ring.
type slot struct {
	pinned *Pinned
	copied *Event // the card has copied the slot
	queued bool   // copied is recorded, and nobody has waited for it yet
}

// fetch is a queued copy to landing[at:], which Sync will copy on to `to`.
type fetch struct {
	to []byte
	at int
}

// NewTransfers allocates the pinned memory for transfers of a stream.
func (s *Stream) NewTransfers() (*Transfers, error) {
	return s.newTransfers(stagingSlots, stagingBytes, landingBytes)
}

func (s *Stream) newTransfers(slots, bytes, landing int) (*Transfers, error) {
	t := &Transfers{stream: s, ring: make([]slot, slots)}
	err := t.allocate(bytes, landing)
	switch {
	case err == nil:
		return t, nil
	case errors.Is(err, ErrLost): // the memory is lost, too
		return nil, err
	}
	return nil, errors.Join(err, t.Close())
}

func (t *Transfers) allocate(bytes, landing int) (err error) {
	d := t.stream.device
	for i := range t.ring {
		if t.ring[i].pinned, err = d.Pin(bytes); err != nil {
			return err
		}
		if t.ring[i].copied, err = d.NewEvent(false); err != nil {
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
		if s.copied != nil {
			failures = append(failures, s.copied.Close())
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
		s := &t.ring[t.current]
		if t.used >= len(s.pinned.bytes) {
			if err := t.nextSlot(); err != nil {
				return err
			}
			continue
		}
		n := copy(s.pinned.bytes[t.used:], from)
		if err := t.stream.Upload(to, s.pinned, t.used, n); err != nil {
			return err
		}
		from, to = from[n:], to+Ptr(n)
		t.used += (n + cacheLine - 1) / cacheLine * cacheLine
	}
	return nil
}

// nextSlot goes on to the next slot, and waits until the card has copied what that holds.
func (t *Transfers) nextSlot() error {
	full := &t.ring[t.current]
	if err := t.stream.Record(full.copied); err != nil {
		return err
	}
	full.queued = true
	t.current, t.used = (t.current+1)%len(t.ring), 0
	next := &t.ring[t.current]
	if !next.queued {
		return nil
	}
	next.queued = false
	return next.copied.Sync()
}

// Fetch queues a copy from the card; the bytes are valid after the next Sync. It waits for a copy that is larger than landing.
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
	t.fetches = append(t.fetches, fetch{to, t.landed})
	t.landed += (len(to) + cacheLine - 1) / cacheLine * cacheLine
	return nil
}

// Sync waits until all queued work is done, and delivers the fetched bytes.
func (t *Transfers) Sync() error {
	err := t.stream.Sync()
	if err == nil {
		for _, a := range t.fetches {
			copy(a.to, t.landing.bytes[a.at:])
		}
		for i := range t.ring {
			t.ring[i].queued = false
		}
		t.current, t.used = 0, 0
	}
	clear(t.fetches) // drop the references to the callers' memory
	t.fetches, t.landed = t.fetches[:0], 0
	return err
}
