package sampler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/given"
	"github.com/seed-7879b91d/grpo/model"
)

// Engine samples from a policy, with the adapter that was attached when the engine was made, as its numbers are at each iteration: one
// that is attached later needs an engine of its own. It is not safe for concurrent use. There is nothing to close: its cache goes with the
// garbage, and with the backend.
type Engine struct {
	Plan
	cfg     model.Config
	decoder *model.Decoder
	blocks  *blockPool

	// Turn, if not nil, is held during each iteration: others may compute on the same backend between two of them.
	Turn sync.Locker

	// Preempted counts the times that a sequence gave up its blocks, to be recomputed, and Dropped those that one did that was not
	// running, as it waited for a reply.
	Preempted, Dropped int
	// Computed counts the tokens that were computed, and Recomputed those of them that had been before, for the same sequence.
	Computed, Recomputed int
	// Drafted counts the tokens that were drafted, and Accepted those of them that were drawn.
	Drafted, Accepted int

	drafts drafts
	now    func() time.Time
}

// New makes an engine for a policy, as NewPlan says.
func New(p *model.Policy, o Options) (*Engine, error) {
	given.All("sampler.New", "p", p)
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

// FreeBlocks is how many blocks nobody uses: all of them between two calls of Sample.
func (e *Engine) FreeBlocks() int { return e.blocks.unused() }

// Events tell of a run while it goes on; both may be nil. They are called by the goroutine that samples,
// so they should return soon.
type Events struct {
	Token func(request, sample int, token int32)
	Done  func(Rollout) // in the order in which completions end
}

// of is what listens to one of the requests, and keeps its rollouts.
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

// Sample draws every completion of the requests. The rollouts come in the order of the requests and
// their samples. On an error, or when the context ends, nothing is left in the cache.
func (e *Engine) Sample(ctx context.Context, requests []Request, on Events) ([]Rollout, error) {
	given.All("sampler.Engine.Sample", "ctx", ctx)
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
		s.hear()
		s.forget()
	}
	return rollouts, nil
}

// inTurn does something while nobody else computes.
func (e *Engine) inTurn(do func() error) error {
	if e.Turn != nil {
		e.Turn.Lock()
		defer e.Turn.Unlock()
	}
	return do()
}
