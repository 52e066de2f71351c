package tinker

import (
	"net/http"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Limits per key. A request beyond them is told to try again, so that no client takes from others.
const (
	maxReading = 256 << 20 // bytes of bodies being received or not parsed yet
	maxHeld    = 1 << 30   // bytes of training requests that no snapshot covers yet
	maxPolls   = 512
	small      = 64 << 10 // the most bytes of a request that is neither data nor a prompt
	perToken   = 64       // a prompt may have this many bytes more, per token of the longest sequence
)

// account is the state of a key: what its clients use of the limits.
type account struct {
	samples   answers
	unpacking sync.Mutex // held while a large body is parsed

	modelSlots chan struct{} // semaphore of models in memory

	mu             sync.Mutex // guards the following fields
	reading, held  int64
	polls          int
	waitingForSlot int // models that wait for a slot
}

// takeModelSlot waits until a model may be brought to memory, as another of the same key leaves; waking the others makes idle ones leave
// soon. It returns false if the server ends.
func (r *run) takeModelSlot() bool {
	a := r.account
	select {
	case a.modelSlots <- struct{}{}:
		return true
	default:
	}
	a.countWaiting(1)
	defer a.countWaiting(-1)
	r.s.mu.Lock()
	var all []*run
	for _, other := range r.s.runs {
		if other.account == a {
			all = append(all, other)
		}
	}
	r.s.mu.Unlock()
	for _, other := range all {
		other.wakeWorker()
	}
	select {
	case a.modelSlots <- struct{}{}:
		return true
	case <-r.s.ctx.Done():
		return false
	}
}

func (a *account) countWaiting(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waitingForSlot += n
}

// idle is how long a model of this key stays in memory without work: hardly at all while others wait for a slot.
func (a *account) idle(usual time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waitingForSlot > 0 {
		return min(usual, time.Millisecond)
	}
	return usual
}

// account returns the account of a key.
func (s *Server) account(who string) *account {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accountLocked(who)
}

// accountLocked is account for callers that hold s.mu.
func (s *Server) accountLocked(who string) *account {
	a := s.accounts[who]
	if a == nil {
		a = &account{modelSlots: make(chan struct{}, s.MaxModels)}
		s.accounts[who] = a
	}
	return a
}

// incoming is a body's share of the account's limit, while it is received and parsed.
type incoming struct {
	of   *account
	room int64
}

// read reserves room for a body; is(0) returns it.
func (a *account) read(r *http.Request, most int64) (*incoming, error) {
	n := r.ContentLength
	if n < 0 || r.Header.Get("Content-Encoding") != "" {
		n = most // its length is not known yet
	}
	n = min(n, most)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reading+n > maxReading {
		return nil, tooMany("%d MB of requests are being received; send the next when some have arrived", a.reading>>20)
	}
	a.reading += n
	return &incoming{a, n}, nil
}

// is corrects the reservation to the size of the body.
func (i *incoming) is(n int) {
	i.of.mu.Lock()
	defer i.of.mu.Unlock()
	i.of.reading += int64(n) - i.room
	i.room = int64(n)
}

// unpack waits until no other large body is parsed: the parsed form may be fifty times as large.
func (a *account) unpack(n int) (done func()) {
	if n <= small {
		return func() {}
	}
	a.unpacking.Lock()
	return a.unpacking.Unlock
}

// poll reserves one of the concurrent polls, until done is called.
func (a *account) poll() (done func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.polls >= maxPolls {
		return nil, tooMany("%d polls wait; poll again when some have been answered", a.polls)
	}
	a.polls++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.polls--
	}, nil
}

// hold counts bytes of requests that are kept in memory; full reports whether that many more are too many.
func (a *account) hold(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held += int64(n)
}

func (a *account) full(n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held+int64(n) > maxHeld
}

// HasRoom returns an error if the store may not grow.
func (s *Server) HasRoom() error { return s.store.CheckSpace(s.MaxStoreBytes) }

// room refuses requests that write while the store is full; clients try again for a while.
func (s *Server) room() error {
	err := s.HasRoom()
	switch {
	case err == nil:
		return nil
	case badinput.Is(err):
		return &status{http.StatusTooManyRequests, err}
	}
	return &status{http.StatusInternalServerError, err} // the store itself is gone
}

func tooMany(format string, args ...any) error {
	return &status{http.StatusTooManyRequests, badinput.Errorf(format, args...)}
}
