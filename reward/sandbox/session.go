package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// SessionLimits bound a process that stays. A field of 0 or less takes its default.
type SessionLimits struct {
	// Call are the limits of one call; Output is that of the standard output of one call, and of its errors. Default of
	// Output 1 MiB, of the others that of Limits.
	Call Limits
	// Total is the processor time of all calls together. Default 60 s.
	Total time.Duration
	// Keep is how much is kept of the output of a call: so many bytes of its beginning, and of its end. Default 16 KiB.
	Keep int
}

func (l SessionLimits) effective() SessionLimits {
	if l.Call.Output <= 0 {
		l.Call.Output = 1 << 20
	}
	if l.Total <= 0 {
		l.Total = time.Minute
	}
	if l.Keep <= 0 {
		l.Keep = 16 << 10
	}
	l.Call = l.Call.effective()
	return l
}

// The most bytes of a request, which has to fit into the buffer of a socket that nobody reads yet, and of an answer.
const (
	MaxRequest = 64 << 10
	maxAnswer  = 1 << 20
)

// Reply is what came out of one call.
type Reply struct {
	// Answer are bytes that the process chose, as everything that a program prints is.
	Answer         []byte
	Stdout, Stderr Excerpt
	// Status is OK where there is an answer. All others end the process, and the next call begins with a new one: RTE ended by
	// itself, or gave no answer that can be read; TLE, MLE as of a run.
	Status           Status
	ExitCode, Signal int
	// Spent says of TLE that the time of all calls together is used up; there are no further calls then.
	Spent     bool
	CPU, Wall time.Duration
}

// Excerpt is the beginning and the end of a text.
type Excerpt struct {
	Head, Tail []byte
	// LeftOut is the number of bytes between them.
	LeftOut int64
}

// talker is a worker that can hold a process for many calls.
type talker interface {
	// begin starts the program as a process that stays.
	begin(ctx context.Context, p Program, l SessionLimits) (dialogue, error)
}

// dialogue is a process that stays.
type dialogue interface {
	// call has the process answer. After a Status that is not OK, and after an error, it is over.
	call(ctx context.Context, request []byte, l Limits) (Reply, error)
	// end ends the process, so that its worker can take another.
	end()
}

// Session is a process for one conversation, which keeps its state from call to call. Between calls it is stopped. It takes one
// of the places of its pool with its first call, and keeps it until Close. A pool has Options.Sessions places, given to
// groups in turn, so conversations wait where more want one, and what comes out of each does not depend on the others. Whoever
// holds a place must be able to come to an end without those that wait.
type Session struct {
	pool   *Pool
	group  string
	prog   Program
	limits SessionLimits

	mu     sync.Mutex
	closed bool
	place  *slot
	talk   dialogue
	used   time.Duration
}

// NewSession makes a session, which holds nothing yet. The program is called once in each process that the session has: it
// speaks through descriptor 3, as the package tools knows how to.
func (p *Pool) NewSession(group string, prog Program, l SessionLimits) *Session {
	return &Session{pool: p, group: group, prog: prog, limits: l.effective()}
}

// Call has the process answer, a new one where there is none. It waits for a place, and then for its turn among everything else that
// runs in the pool. The error is the context's, ErrClosed, or an *InfraError; what the process did is lost then, too.
func (s *Session) Call(ctx context.Context, request []byte) (Reply, error) {
	if len(request) > MaxRequest {
		return Reply{}, fmt.Errorf("sandbox: a request of %d bytes, at most %d", len(request), MaxRequest)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.pool.closing.Err() != nil:
		return Reply{}, ErrClosed
	case s.closed:
		return Reply{}, errors.New("sandbox: call of a session that is closed")
	}
	left := s.limits.Total - s.used
	if left <= 0 {
		return Reply{Status: TLE, Spent: true}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.pool.closing, cancel)()
	r, err := s.call(ctx, request, left)
	switch {
	case s.pool.closing.Err() != nil:
		s.release()
		return Reply{}, ErrClosed
	case err != nil && ctx.Err() != nil:
		err = ctx.Err()
	}
	s.used += r.CPU
	return r, err
}

func (s *Session) call(ctx context.Context, request []byte, left time.Duration) (r Reply, err error) {
	if s.place == nil {
		if s.place, err = s.pool.places.acquire(ctx, s.group); err != nil {
			return r, err
		}
		s.pool.sessions.keep(s)
	}
	turn, err := s.pool.queue.acquire(ctx, s.group)
	if err != nil {
		return r, err
	}
	defer s.pool.queue.release(turn)
	for attempt := 1; s.talk == nil; attempt++ {
		err := s.begin(ctx)
		if err == nil || ctx.Err() != nil || badinput.Is(err) {
			if err != nil {
				return r, err
			}
			break
		}
		if attempt == attempts {
			return r, &InfraError{Attempts: attempt, Err: err}
		}
		pause(ctx, 5*time.Millisecond<<(2*attempt))
	}
	l := s.limits.Call
	l.CPU = min(l.CPU, left+chargedPauses)
	if r, err = s.talk.call(ctx, request, l); err != nil {
		s.drop()
		return r, &InfraError{Attempts: 1, Err: err} // its state cannot be made again
	}
	if r.Status != OK {
		r.Spent = r.Status == TLE && r.CPU >= left
		s.drop()
	}
	return r, nil
}

// begin starts a process in the cell of the place, or in a new one.
func (s *Session) begin(ctx context.Context) (err error) {
	if s.place.worker == nil {
		if s.place.worker, err = s.pool.kit.open(ctx, s.place.number); err != nil {
			s.place.worker = nil
			return err
		}
	}
	t, ok := s.place.worker.(talker)
	if !ok {
		return badinput.Errorf("a conversation needs a cell of its own, and this machine isolates no program: run on Linux 5.13 or later " +
			"with user namespaces or landlock")
	}
	if s.talk, err = t.begin(ctx, s.prog, s.limits); err != nil {
		s.talk = nil
		s.drop()
	}
	return err
}

// drop ends the process, and the cell unless it is as it was before.
func (s *Session) drop() {
	if s.talk != nil {
		s.talk.end()
		s.talk = nil
	}
	if w := s.place.worker; w != nil && !w.usable() {
		w.close()
		s.place.worker = nil
	}
}

// release gives the place back.
func (s *Session) release() {
	if s.place == nil {
		return
	}
	s.drop()
	s.pool.sessions.forget(s)
	s.pool.places.release(s.place)
	s.place = nil
}

// Close ends the process and gives the place back. It waits for a call under way.
func (s *Session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.release()
}

// holders are the sessions that have a place.
type holders struct {
	mu   sync.Mutex
	held map[*Session]bool
}

func (h *holders) keep(s *Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held == nil {
		h.held = map[*Session]bool{}
	}
	h.held[s] = true
}

func (h *holders) forget(s *Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, s)
}

// closeAll closes the sessions that nobody has closed. A call under way ends by itself once the pool is closing.
func (h *holders) closeAll() {
	h.mu.Lock()
	var left []*Session
	for s := range h.held {
		left = append(left, s)
	}
	h.mu.Unlock()
	for _, s := range left {
		s.Close()
	}
}
