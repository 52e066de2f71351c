package tinker

import (
	"net/http"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// What one who asks may have at a time; whatever goes beyond it is told to come back. None takes from what others may have.
const (
	maxReading = 256 << 20 // bytes of bodies that come in, and of which nothing was made yet
	maxHeld    = 1 << 30   // of requests to train that no state has yet
	maxPolls   = 512
	small      = 64 << 10 // bytes of a request that is neither data nor a prompt
	perToken   = 64       // bytes of one that is a prompt, for each token that a sequence may have, beside those
)

// account is what one who asks has.
type account struct {
	samples   answers
	unpacking sync.Mutex // held by whoever reads data

	seats chan struct{} // of models in the memory

	mu            sync.Mutex // guards what follows
	reading, held int64
	polls         int
	standing      int // models that wait for a seat
}

// sit waits until a model may come to the memory: until another of the same key leaves it, which one does soon that has nothing
// to do. It reports whether it may; else the server ends.
func (r *run) sit() bool {
	a := r.account
	select {
	case a.seats <- struct{}{}:
		return true
	default:
	}
	a.stand(1)
	defer a.stand(-1)
	r.s.mu.Lock()
	var all []*run
	for _, other := range r.s.runs {
		if other.account == a {
			all = append(all, other)
		}
	}
	r.s.mu.Unlock()
	for _, other := range all {
		other.rouse()
	}
	select {
	case a.seats <- struct{}{}:
		return true
	case <-r.s.ctx.Done():
		return false
	}
}

func (a *account) stand(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.standing += n
}

// idle is how long a model of this key stays in the memory without work.
func (a *account) idle(usual time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.standing > 0 {
		return min(usual, time.Millisecond)
	}
	return usual
}

// account is that of a key.
func (s *Server) account(who string) *account {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accountLocked(who)
}

// accountLocked is account where mu is held.
func (s *Server) accountLocked(who string) *account {
	a := s.accounts[who]
	if a == nil {
		a = &account{seats: make(chan struct{}, s.Models)}
		s.accounts[who] = a
	}
	return a
}

// incoming is the room that a body takes of an account while it comes in, and until something was made of it.
type incoming struct {
	of   *account
	room int64
}

// read takes room for a body, which is to be given back with is(0).
func (a *account) read(r *http.Request, most int64) (*incoming, error) {
	n := r.ContentLength
	if n < 0 || r.Header.Get("Content-Encoding") != "" {
		n = most // it tells when it is there
	}
	n = min(n, most)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reading+n > maxReading {
		return nil, tooMany("%d MB of requests are on their way; send the next when some have come", a.reading>>20)
	}
	a.reading += n
	return &incoming{a, n}, nil
}

// is says how large the body is that has come.
func (i *incoming) is(n int) {
	i.of.mu.Lock()
	defer i.of.mu.Unlock()
	i.of.reading += int64(n) - i.room
	i.room = int64(n)
}

// unpack waits until nothing is made of another large body: that may be fifty times as large.
func (a *account) unpack(n int) (done func()) {
	if n <= small {
		return func() {}
	}
	a.unpacking.Lock()
	return a.unpacking.Unlock
}

// poll takes one of the polls at a time, until done is called.
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

// hold counts bytes of requests that are kept in the memory, and full tells whether so many more are too many.
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

// HasRoom says why the store may not grow; nil: it may.
func (s *Server) HasRoom() error { return s.store.Room(s.Room) }

// room refuses what would be written where there is no room for it; clients try again for a while.
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
