package sampler

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/model"
)

// Engine samples from a policy with its current weights: an update between two calls of Sample takes effect. An adapter that is
// attached after the engine was made needs a new engine. It is not safe for concurrent use. There is nothing to close: its KV cache
// is freed with it, or with the backend.
type Engine struct {
	Plan
	cfg     model.Config
	decoder *model.Decoder
	blocks  *blockPool

	// Turn, if not nil, is held during each iteration, so that others can use the same backend in between.
	Turn sync.Locker

	// Preempted counts preemptions of running sequences, Dropped how often a parked or waiting sequence lost its blocks.
	Preempted, Dropped int
	// Computed counts the tokens whose keys and values were computed, Recomputed those that had been computed before.
	Computed, Recomputed int
	// Drafted counts the tokens that were drafted, Accepted those that the model then drew.
	Drafted, Accepted int

	drafts drafts
	now    func() time.Time

	busy atomic.Bool // while Sample, or Run of a Live, uses it
}

// occupy marks the engine as used by a function until release is called. It panics if it is used already: what two calls draw at
// a time would be wrong.
func (e *Engine) occupy(function string) (release func()) {
	if !e.busy.CompareAndSwap(false, true) {
		panic(function + ": it is running already, in another goroutine or around this callback; make another one, or wait until it is done")
	}
	return func() { e.busy.Store(false) }
}

// New makes an engine for a policy, of the sizes that NewPlan computes.
func New(p *model.Policy, o Options) (*Engine, error) {
	precondition.NotNil("sampler.New", "p", p)
	plan, err := NewPlan(p, o)
	if err == nil {
		err = plan.check(p)
	}
	if err != nil {
		return nil, err
	}
	e := &Engine{Plan: plan, cfg: p.Config, blocks: newBlockPool(plan.Blocks), drafts: newDrafts(plan.Options), now: time.Now}
	e.decoder, err = p.NewDecoder(plan.Decoder())
	return e, err
}

// FreeBlocks is the number of blocks that no sequence uses: all of them between two calls of Sample.
func (e *Engine) FreeBlocks() int { return e.blocks.unused() }

// Events are callbacks of a call of Sample; each may be nil. The goroutine that samples calls them, so they should
// return quickly, and must not call Sample of the same engine.
type Events struct {
	Token func(request, sample int, token int32)
	Done  func(Rollout) // in the order in which completions finish
}

// of is the listener of one request. It also stores the request's rollouts.
func (on Events) of(request int, rollouts []Rollout) Listener {
	l := Listener{Done: func(r Rollout) {
		rollouts[r.Sample] = r
		if on.Done != nil {
			on.Done(r)
		}
	}}
	if on.Token != nil {
		l.Token = func(t Token) { on.Token(request, t.Sample, t.ID) }
	}
	return l
}

// Sample draws all completions of the requests, and returns them in the order of requests and samples. All
// blocks are free afterwards, also after an error or when the context ends. With an error there are no rollouts; Events.Done was
// given those that were done before.
func (e *Engine) Sample(ctx context.Context, requests []Request, on Events) ([]Rollout, error) {
	precondition.NotNil("sampler.Engine.Sample", "ctx", ctx)
	defer e.occupy("sampler.Engine.Sample")()
	for i, r := range requests {
		if err := r.check(e.cfg, e.MaxLength); err != nil {
			return nil, fmt.Errorf("request %d: %w", i, err)
		}
		if r.Adapter != nil {
			return nil, badinput.Errorf("request %d: an adapter of its own, which only a Live serves", i)
		}
	}
	s := &scheduler{Engine: e, replies: newReplies()}
	defer s.close()
	n := 0
	for _, r := range requests {
		n += r.N
	}
	rollouts := make([]Rollout, n)
	for i, r := range requests {
		s.add(newGroup(i, r, on.of(i, rollouts[len(rollouts)-n:])))
		n -= r.N
	}
	for len(s.sequences) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if s.idle() {
			s.replies.wait(ctx)
		} else if err := e.inTurn(s.iterate); err != nil {
			return nil, err
		}
		s.takeReplies()
		s.forget()
	}
	return rollouts, nil
}

// inTurn calls do with the backend locked.
func (e *Engine) inTurn(do func() error) error {
	if e.Turn != nil {
		e.Turn.Lock()
		defer e.Turn.Unlock()
	}
	return do()
}
