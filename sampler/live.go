package sampler

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/model"
)

// ErrBusy refuses a request of a client that has MaxWaiting requests waiting.
var ErrBusy = errors.New("too many requests are waiting; try again later")

// ErrWithdrawn refuses a request for an adapter that is no longer served.
var ErrWithdrawn = badinput.Errorf("the adapter of the request was unloaded")

// ErrClosed refuses a request to a Live that was closed, or that failed.
var ErrClosed = errors.New("the sampler takes no more requests")

// Live samples requests that come and go, as a server needs it. Its methods are safe for concurrent use, except
// for Run, which one goroutine calls. A request gets the tokens that Engine.Sample would draw for it, whatever
// else is sampled at the same time.
//
// The base weights must not change while it exists: its prefix cache would be stale.
type Live struct {
	// Turn is the lock on the backend, held while Run computes. Set it before Run to share the backend.
	Turn sync.Locker

	s *scheduler // owned by the goroutine of Run

	between sync.Mutex // guards sequences and blocks between iterations; locked after Turn and before mu

	mu         sync.Mutex      // guards what follows
	submitted  []*Ticket       // submitted, not yet added to the scheduler
	cancelled  []*Ticket       // cancelled, perhaps finished already
	queued     map[*group]bool // requests whose prefill has not begun, and that are not cancelled
	waiting    map[string]int  // the number of these by client
	freeBlocks int             // free and evictable blocks after the last iteration
	err        error           // why the sampler takes no more requests; nil while they are
	wake       chan struct{}
	users      map[*model.Served]int // by adapter that is served: its unfinished requests
	lastUsers  map[*model.Served]int // the same by adapter that is being withdrawn
	fell       sync.Cond             // signalled when a count in users or lastUsers falls
}

// Ticket is a request that was submitted.
type Ticket struct {
	live  *Live
	group *group
}

// Listener has the callbacks of a request; each may be nil. The goroutine of Run calls them: they must return quickly
// and must not wait for anything of the same Live, but may submit and cancel requests.
type Listener struct {
	// Prompt is called before the first token with the prompt's log-probabilities, if the request asks for them; see Rollout.
	Prompt func(scores []float32, top [][]Likely)
	Token  func(Token)
	Done   func(Rollout) // once for each sample, in the order in which they end
}

// Token is a token that was drawn.
type Token struct {
	Sample       int
	ID           int32
	LogProb, Raw float32 // as in Rollout
	Top          []Likely
}

// NewLive makes a Live for a policy, of the sizes that NewPlan computes.
func NewLive(p *model.Policy, o Options) (*Live, error) {
	e, err := New(p, o)
	if err != nil {
		return nil, err
	}
	e.TokenBudget = max(e.TokenBudget, e.MaxSequences) // a row for each running sequence
	s := &scheduler{Engine: e, replies: newReplies(), tree: newTree(e.Block, e.blocks), pace: newPace(e.Pace, e.TokenBudget)}
	l := &Live{Turn: new(sync.Mutex), s: s, wake: s.replies.wake, users: map[*model.Served]int{},
		lastUsers: map[*model.Served]int{}, queued: map[*group]bool{}, waiting: map[string]int{}}
	l.fell.L, l.freeBlocks = &l.mu, s.FreeBlocks()
	return l, nil
}

// FreeBlocks is the number of blocks that no request used after the last iteration; the prefix cache may hold them.
func (l *Live) FreeBlocks() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.freeBlocks
}

// Plan has the sizes of the Live.
func (l *Live) Plan() Plan { return l.s.Plan }

// Submit queues a request. The error is what is wrong with it, ErrWithdrawn, ErrBusy, or wraps ErrClosed.
func (l *Live) Submit(r Request, on Listener) (*Ticket, error) {
	all, err := l.SubmitAll([]Request{r}, []Listener{on})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// SubmitAll queues all of the requests or none; on[i] hears of all[i]. ErrBusy depends only on whether the client has MaxWaiting
// requests waiting already: neither on the number of these requests, nor on other clients.
func (l *Live) SubmitAll(all []Request, on []Listener) ([]*Ticket, error) {
	if len(on) != len(all) {
		return nil, badinput.Errorf("%d listeners for %d requests, expected one for each", len(on), len(all))
	}
	for _, r := range all {
		if err := r.check(l.s.cfg, l.s.MaxLength); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	for _, r := range all {
		if l.waiting[r.From] >= l.s.MaxWaiting {
			return nil, ErrBusy
		}
		if _, served := l.users[r.Adapter]; r.Adapter != nil && !served {
			return nil, ErrWithdrawn
		}
	}
	tickets := make([]*Ticket, len(all))
	for i, r := range all {
		if r.Adapter != nil {
			l.users[r.Adapter]++
		}
		tickets[i] = &Ticket{live: l, group: newGroup(0, r, on[i])}
		l.queued[tickets[i].group] = true
		l.waiting[r.From]++
	}
	l.submitted = append(l.submitted, tickets...)
	l.rouse()
	return tickets, nil
}

// Cancel ends a request: its sequences release their blocks before the next iteration. Done is still called for each
// unfinished one, with Cancelled.
func (t *Ticket) Cancel() {
	l := t.live
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancelled = append(l.cancelled, t)
	l.begun(t.group) // it no longer counts towards MaxWaiting
	l.rouse()
}

// Close refuses further requests; Run returns when those that were submitted are done.
func (l *Live) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = ErrClosed
	}
	l.rouse()
}

// rouse wakes Run; l.mu is held.
func (l *Live) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run computes while there is work, and sleeps while there is none. It returns nil after Close, when the last request is
// done. When ctx ends it cancels all requests, and after an error of the backend it fails them, and returns that error; then the Live
// takes no more.
func (l *Live) Run(ctx context.Context) error {
	precondition.NotNil("sampler.Live.Run", "ctx", ctx)
	defer l.s.occupy("sampler.Live.Run")()
	for {
		more := l.receive()
		switch err := ctx.Err(); {
		case err != nil:
			return l.abort(Cancelled, err)
		case !l.s.idle():
			if err := l.iterate(); err != nil {
				return l.abort(Failed, err)
			}
		case !more && len(l.s.sequences) == 0:
			return nil
		default:
			l.s.replies.wait(ctx)
		}
	}
}

func (l *Live) iterate() error {
	l.Turn.Lock()
	defer l.Turn.Unlock()
	start, drafted := l.s.now(), l.s.Drafted
	err := l.s.iterate()
	if l.s.Drafted == drafted { // iterations with drafts have no prefill, and would distort the times
		l.s.pace.saw(l.s.decodeDraws, len(l.s.rows.Tokens)-l.s.decodeDraws, l.s.now().Sub(start))
	}
	return err
}

// receive passes submitted, cancelled and answered requests to the scheduler, and reports whether more may be submitted.
func (l *Live) receive() bool {
	l.mu.Lock()
	come, leave, more := l.submitted, l.cancelled, l.err == nil
	l.submitted, l.cancelled = nil, nil
	l.mu.Unlock()
	l.between.Lock()
	defer l.between.Unlock()
	for _, t := range come {
		l.s.add(t.group)
	}
	for _, t := range leave {
		l.s.end(t.group, Cancelled, nil)
	}
	l.s.takeReplies()
	l.s.forget()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.freeBlocks = l.s.FreeBlocks()
	for g := range l.queued {
		if g.begun {
			l.begun(g)
		}
	}
	l.left()
	return more
}

// abort ends all requests with err, and refuses further ones.
func (l *Live) abort(why FinishReason, err error) error {
	l.mu.Lock()
	l.err = errors.Join(ErrClosed, err)
	l.mu.Unlock()
	l.receive()
	l.between.Lock()
	for _, g := range slices.Clone(l.s.groups) {
		l.s.end(g, why, err)
	}
	l.between.Unlock()
	l.receive()
	return err
}

// begun takes a request out of those that wait; l.mu is held.
func (l *Live) begun(g *group) {
	if !l.queued[g] {
		return
	}
	delete(l.queued, g)
	if l.waiting[g.request.From]--; l.waiting[g.request.From] == 0 {
		delete(l.waiting, g.request.From)
	}
}
