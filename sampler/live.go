package sampler

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/given"
	"github.com/seed-7879b91d/grpo/model"
)

// ErrBusy refuses requests of one of whom as many wait as may.
var ErrBusy = errors.New("as many requests wait as may: try again later")

// ErrWithdrawn refuses a request for an adapter that is not served any more.
var ErrWithdrawn = badinput.Errorf("the adapter of the request is not served any more")

// ErrClosed refuses a request that comes too late.
var ErrClosed = errors.New("no more requests are taken")

// Live samples for requests that come and go. Its methods are safe for concurrent use, but for Run, which
// one goroutine calls. A request is drawn as Engine.Sample draws it, whatever is drawn beside it.
//
// The weights that it reads stay as they are while it is there.
type Live struct {
	// Turn is held while it computes. Whoever else computes on the same backend holds it too; it is set before Run.
	Turn sync.Locker

	s *scheduler // of the goroutine of Run

	between sync.Mutex // held by whoever touches sequences or blocks between two iterations; before mu, and after Turn

	mu      sync.Mutex      // guards what follows
	come    []*Ticket       // submitted, not yet with the scheduler
	leave   []*Ticket       // cancelled, perhaps finished
	begins  map[*group]bool // requests of which nothing is drawn yet, and that nobody gave up
	waiting map[string]int  // how many of them are of each who asks
	unused  int             // blocks, between iterations
	err     error           // why no more requests are taken; nil while they are
	wake    chan struct{}
	readers map[*model.Served]int // of each adapter that is served: requests that are not done
	leaving map[*model.Served]int // of each that is being withdrawn
	fewer   sync.Cond             // is told when either are fewer
}

// Ticket is a request that was submitted.
type Ticket struct {
	live  *Live
	group *group
}

// Listener hears of a request. Its functions, which may be nil, are called by the goroutine of Run: they return
// soon, and neither run nor wait for anything of the same Live, but may submit and cancel.
type Listener struct {
	// Prompt hears, before the first token, of the scores of a prompt that asks for them, as Rollout has them.
	Prompt func(scores []float32, top [][]Likely)
	Token  func(Token)
	Done   func(Rollout) // once for each sample, in the order in which they end
}

// Token is one that was drawn.
type Token struct {
	Sample       int
	ID           int32
	LogProb, Raw float32 // as in Rollout
	Top          []Likely
}

// NewLive makes a sampler for a policy, as NewPlan says.
func NewLive(p *model.Policy, o Options) (*Live, error) {
	e, err := New(p, o)
	if err != nil {
		return nil, err
	}
	e.TokenBudget = max(e.TokenBudget, e.MaxSequences) // each that runs has its row
	s := &scheduler{Engine: e, replies: newReplies(), tree: newTree(e.Block, e.blocks), pace: newPace(e.Pace, e.TokenBudget)}
	l := &Live{Turn: new(sync.Mutex), s: s, wake: s.replies.wake, readers: map[*model.Served]int{},
		leaving: map[*model.Served]int{}, begins: map[*group]bool{}, waiting: map[string]int{}}
	l.fewer.L, l.unused = &l.mu, s.FreeBlocks()
	return l, nil
}

// FreeBlocks is how many blocks of its cache no request used when Run last looked at what came: all of them where there is none.
func (l *Live) FreeBlocks() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unused
}

// Plan is what it holds.
func (l *Live) Plan() Plan { return l.s.Plan }

// Submit takes a request in. The error is what is wrong with it, ErrBusy, or what wraps ErrClosed.
func (l *Live) Submit(r Request, on Listener) (*Ticket, error) {
	all, err := l.SubmitAll([]Request{r}, []Listener{on})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// SubmitAll takes requests in, all of them or none; on[i] hears of all[i]. Who asks is not refused for how many they are, nor for what
// others wait for: ErrBusy is for those of whom MaxWaiting wait already.
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
		if _, served := l.readers[r.Adapter]; r.Adapter != nil && !served {
			return nil, ErrWithdrawn
		}
	}
	tickets := make([]*Ticket, len(all))
	for i, r := range all {
		if r.Adapter != nil {
			l.readers[r.Adapter]++
		}
		tickets[i] = &Ticket{live: l, group: newGroup(0, r, on[i])}
		l.begins[tickets[i].group] = true
		l.waiting[r.From]++
	}
	l.come = append(l.come, tickets...)
	l.rouse()
	return tickets, nil
}

// Cancel ends a request. Its sequences give up their blocks at the next iteration; Done is still called for each
// that is not finished, with Cancelled.
func (t *Ticket) Cancel() {
	l := t.live
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave = append(l.leave, t)
	l.begun(t.group) // what is asked next does not wait behind it
	l.rouse()
}

// Close takes no more requests; Run returns when those that were taken are done.
func (l *Live) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = ErrClosed
	}
	l.rouse()
}

// rouse has Run look at what came; l.mu is held.
func (l *Live) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run computes while there is work, and sleeps while there is none. It ends after Close with the last request, with
// nil; with the context, whose requests are cancelled; or with an error of the backend, which ends all requests too.
func (l *Live) Run(ctx context.Context) error {
	given.All("sampler.Live.Run", "ctx", ctx)
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
	if l.s.Drafted == drafted { // as nothing is drafted while prompts are computed
		l.s.pace.saw(l.s.drawing, len(l.s.rows.Tokens)-l.s.drawing, l.s.now().Sub(start))
	}
	return err
}

// receive brings what came and what leaves to the scheduler, and reports whether more may come.
func (l *Live) receive() bool {
	l.mu.Lock()
	come, leave, more := l.come, l.leave, l.err == nil
	l.come, l.leave = nil, nil
	l.mu.Unlock()
	l.between.Lock()
	defer l.between.Unlock()
	for _, t := range come {
		l.s.add(t.group)
	}
	for _, t := range leave {
		l.s.end(t.group, Cancelled, nil)
	}
	l.s.hear()
	l.s.forget()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unused = l.s.FreeBlocks()
	for g := range l.begins {
		if g.begun {
			l.begun(g)
		}
	}
	l.left()
	return more
}

// abort ends all requests, and takes no more.
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

// begun has a request wait no more; l.mu is held.
func (l *Live) begun(g *group) {
	if !l.begins[g] {
		return
	}
	delete(l.begins, g)
	if l.waiting[g.request.From]--; l.waiting[g.request.From] == 0 {
		delete(l.waiting, g.request.From)
	}
}
