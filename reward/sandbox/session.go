package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// SessionLimits bound the process of a Session. A field of 0 or less takes its default.
type SessionLimits struct {
	// Call are the limits of one call, where Output bounds standard output and standard error each. The default of
	// Output is 1 MiB, the others are those of Limits.
	Call Limits
	// Total is the processor time of all calls together. Default 60 s.
	Total time.Duration
	// Keep is the number of bytes that are kept of the beginning of each output of a call, and of its end. Default 16 KiB.
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

// The largest sizes in bytes. A request must fit into the socket's buffer, because it is sent before the process reads.
const (
	MaxRequest = 64 << 10
	maxAnswer  = 1 << 20
)

// Reply is the result of one call.
type Reply struct {
	// Answer is chosen by the process, and no more to be trusted than what it prints.
	Answer         []byte
	Stdout, Stderr Excerpt
	// Status is OK if there is an answer. With any other status the process is gone, and the next call starts a new one: RTE if it
	// ended by itself or its answer could not be read; TLE and MLE as for a run.
	Status           Status
	ExitCode, Signal int
	// Spent says of TLE that SessionLimits.Total is used up: all further calls fail, too.
	Spent     bool
	CPU, Wall time.Duration
}

// Excerpt is the beginning and the end of a text.
type Excerpt struct {
	Head, Tail []byte
	// LeftOut is the number of bytes between them.
	LeftOut int64
}

// sessionWorker is a worker that can also hold the process of a session.
type sessionWorker interface {
	// begin starts the program, which then waits for calls.
	begin(ctx context.Context, p Program, l SessionLimits) (sessionProcess, error)
}

// sessionProcess is a process that answers the calls of a session.
type sessionProcess interface {
	// call sends a request and waits for the answer. After a Status other than OK, or an error, only end may be called.
	call(ctx context.Context, request []byte, l Limits) (Reply, error)
	// end ends the process, so that its worker can start another.
	end()
}

// Session is a process for one conversation, which keeps its state from call to call; between calls it is stopped. With its
// first call it takes one of the Options.Sessions places of its pool, and keeps it until Close. If there are more sessions than
// places, their groups wait in turn; the results of a session do not depend on the others. To avoid a deadlock, the holder of a
// place must be able to finish without the sessions that wait.
type Session struct {
	pool   *Pool
	group  string
	prog   Program
	limits SessionLimits

	mu      sync.Mutex
	closed  bool
	place   *slot
	running sessionProcess
	used    time.Duration
}

// NewSession makes a session, which holds no place yet. The program is called once in each process of the session, and
// answers requests on descriptor 3; package tools has the protocol.
func (p *Pool) NewSession(group string, prog Program, l SessionLimits) *Session {
	return &Session{pool: p, group: group, prog: prog, limits: l.effective()}
}

// Call sends a request to the process, and starts one if there is none. It waits for a place, and then for a slot like every other run of
// the pool. The error is the context's, ErrClosed, or an *InfraError; after it the state of the process is lost.
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
	case s.prog.Call == "":
		return Reply{}, badinput.Errorf("sandbox: the program of the session has no Call, expected the name of a function that answers requests")
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
	for attempt := 1; s.running == nil; attempt++ {
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
	if r, err = s.running.call(ctx, request, l); err != nil {
		s.drop()
		return r, &InfraError{Attempts: 1, Err: err} // not retried: the state of the process is lost
	}
	if r.Status != OK {
		r.Spent = r.Status == TLE && r.CPU >= left
		s.drop()
	}
	return r, nil
}

// begin starts a process in the cell of the place, or in a new cell.
func (s *Session) begin(ctx context.Context) (err error) {
	if s.place.worker == nil {
		if s.place.worker, err = s.pool.factory.open(ctx, s.place.number); err != nil {
			s.place.worker = nil
			return err
		}
	}
	t, ok := s.place.worker.(sessionWorker)
	if !ok {
		return badinput.Errorf("a conversation needs a cell of its own, and this machine isolates no program: run on Linux 5.13 or later " +
			"with user namespaces or landlock")
	}
	if s.running, err = t.begin(ctx, s.prog, s.limits); err != nil {
		s.running = nil
		s.drop()
	}
	return err
}

// drop ends the process, and closes the cell unless it can be reused.
func (s *Session) drop() {
	if s.running != nil {
		s.running.end()
		s.running = nil
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

// holders are the sessions that have a place, so that Close of a pool can close them.
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

// closeAll closes the sessions that are still open. Calls under way end by themselves once the pool is closing.
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
