package tinker

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Parked is a voice that speaks with one adapter at a time: requests for the same one are drawn together, others wait. The
// adapter that speaks is attached to a policy of its own over the base's weights.
type Parked struct {
	base *model.Policy
	b    kernels.Backend
	size sampler.Options
	turn sync.Locker

	mu      sync.Mutex // guards what follows
	queue   []*saying
	working bool

	seats map[string]*seat // of the goroutine that draws; by layout
}

// seat is a policy with an adapter of some layout, and its sampler.
type seat struct {
	policy *model.Policy
	engine *sampler.Engine
	on     string // the adapter that is attached
}

// saying is a request in work.
type saying struct {
	ctx      context.Context
	adapter  *Adapter
	request  sampler.Request
	rollouts []sampler.Rollout
	err      error
	done     chan struct{}
}

// NewParked makes a voice of a base; each layout of adapters that speaks takes memory of that size.
func NewParked(b kernels.Backend, base *model.Policy, size sampler.Options, turn sync.Locker) *Parked {
	return &Parked{base: base, b: b, size: size, turn: turn, seats: map[string]*seat{}}
}

// maxQueue is how many requests wait at the most.
const maxQueue = 4096

// Sample is Voice's.
func (p *Parked) Sample(ctx context.Context, w *Adapter, r sampler.Request) ([]sampler.Rollout, error) {
	if r.PromptTop > 0 {
		return nil, badinput.Errorf("topk_prompt_logprobs: the sampler of this base does not report them; ask for prompt_logprobs")
	}
	s := &saying{ctx: ctx, adapter: w, request: r, done: make(chan struct{})}
	p.mu.Lock()
	if len(p.queue) >= maxQueue {
		p.mu.Unlock()
		return nil, sampler.ErrBusy
	}
	p.queue = append(p.queue, s)
	if !p.working {
		p.working = true
		go p.draw()
	}
	p.mu.Unlock()
	<-s.done
	return s.rollouts, s.err
}

// draw goes on until nobody waits.
func (p *Parked) draw() {
	for {
		batch := p.next()
		if batch == nil {
			return
		}
		p.turn.Lock()
		p.say(batch)
		p.turn.Unlock()
		for _, s := range batch {
			close(s.done)
		}
	}
}

// next are the first request and all others for the same adapter.
func (p *Parked) next() (batch []*saying) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var others []*saying
	for _, s := range p.queue {
		if idOf(s.adapter) == idOf(p.queue[0].adapter) {
			batch = append(batch, s)
		} else {
			others = append(others, s)
		}
	}
	p.queue, p.working = others, len(batch) > 0
	return batch
}

func idOf(a *Adapter) string {
	if a == nil {
		return ""
	}
	return a.ID
}

// say draws a batch; where it is refused, each by itself, so that only those are refused that are wrong.
func (p *Parked) say(batch []*saying) {
	at, err := p.seat(batch[0].adapter)
	if err == nil {
		err = at.sample(p, batch)
	}
	if err == nil {
		return
	}
	for _, s := range batch {
		if s.err = err; at != nil && len(batch) > 1 {
			s.err = at.sample(p, []*saying{s})
		}
	}
}

func (at *seat) sample(p *Parked, batch []*saying) error {
	requests := make([]sampler.Request, len(batch))
	for i, s := range batch {
		requests[i] = s.request
		requests[i].ScorePrompt = false
	}
	rollouts, err := at.engine.Sample(batch[0].ctx, requests, sampler.Events{Token: func(int, int, int32) { p.breathe() }})
	if err != nil {
		return err
	}
	for i, s := range batch {
		n := s.request.N
		s.rollouts, rollouts = rollouts[:n:n], rollouts[n:]
		if !s.request.ScorePrompt {
			continue
		}
		prompt := []float32{float32(math.NaN())}
		if len(s.request.Prompt) > 1 {
			scores, err := at.policy.Score(s.ctx, [][]int32{s.request.Prompt}, 1)
			if err != nil {
				return err
			}
			prompt = append(prompt, scores[0]...)
		}
		batch[i].rollouts[0].Prompt = prompt
	}
	return nil
}

// breathe lets others compute.
func (p *Parked) breathe() {
	p.turn.Unlock()
	p.turn.Lock()
}

// seat has an adapter attached.
func (p *Parked) seat(a *Adapter) (*seat, error) {
	if a == nil {
		return p.make("", nil)
	}
	weights, err := a.Load()
	if err != nil {
		return nil, err
	}
	at, err := p.make(layoutOf(weights.Config), weights)
	if err != nil || at.on == a.ID {
		return at, err
	}
	params, _, _ := at.policy.Slabs()
	p.b.Upload(params, weights.Values)
	at.policy.Publish()
	at.on = a.ID
	return at, p.b.Sync()
}

func layoutOf(c lora.Config) string {
	return fmt.Sprint(c.Rank, c.Alpha, c.Targets)
}

// make finds the seat of a layout, or makes it.
func (p *Parked) make(key string, a *lora.Adapter) (*seat, error) {
	if at := p.seats[key]; at != nil {
		return at, nil
	}
	policy, err := p.base.Twin()
	if err != nil {
		return nil, err
	}
	if a != nil {
		if err := policy.Attach(lora.New(a.Layout)); err != nil {
			return nil, err
		}
	}
	engine, err := sampler.New(policy, p.size)
	if err != nil {
		return nil, err
	}
	p.seats[key] = &seat{policy: policy, engine: engine}
	return p.seats[key], nil
}
