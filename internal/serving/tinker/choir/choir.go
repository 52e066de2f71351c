// Package choir samples completions for several adapters of a base together.
package choir

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Adapter is an immutable adapter, identified by its ID.
type Adapter struct {
	ID   string
	Load func() (*lora.Adapter, error)
}

// Choir samples for a base with a sampler that serves adapters: requests for several of them run in the same batches.
// Adapters stay loaded while there is room; the least recently used one is evicted.
type Choir struct {
	live *sampler.Live
	most int // slots used here; the other slots of the sampler are for named adapters

	mu    sync.Mutex // guards the following fields
	freed sync.Cond
	slots map[string]*slot // by adapter ID
	clock int
}

// slot is an adapter that the sampler has loaded.
type slot struct {
	served *model.Served
	users  int
	used   int
}

// New makes a Choir of a sampler, which the caller runs.
func New(live *sampler.Live) *Choir {
	c := &Choir{live: live, most: max(1, live.Plan().Adapters/3), slots: map[string]*slot{}}
	c.freed.L = &c.mu
	return c
}

// Sample samples the completions of a request with an adapter; nil is the bare base. It may be called by many goroutines.
func (c *Choir) Sample(ctx context.Context, w *Adapter, r sampler.Request) ([]sampler.Rollout, error) {
	at, err := c.take(ctx, w)
	if err != nil {
		return nil, err
	}
	defer c.leave(at)
	r.Adapter = at.served
	return c.draw(ctx, r)
}

// busy is the pause before a request is submitted again to a sampler whose queue is full.
const busy = 50 * time.Millisecond

// draw waits for all samples of a request.
func (c *Choir) draw(ctx context.Context, r sampler.Request) ([]sampler.Rollout, error) {
	if r.N < 1 {
		return nil, badinput.Errorf("num_samples: found %d, expected 1 or more", r.N)
	}
	rollouts, left, done := make([]sampler.Rollout, r.N), r.N, make(chan struct{})
	on := sampler.Listener{Done: func(x sampler.Rollout) {
		rollouts[x.Sample] = x
		if left--; left == 0 {
			close(done)
		}
	}}
	ticket, err := c.live.Submit(r, on)
	for errors.Is(err, sampler.ErrBusy) && ctx.Err() == nil { // the request was accepted, so it has to wait here
		time.Sleep(busy)
		ticket, err = c.live.Submit(r, on)
	}
	if err != nil {
		return nil, err
	}
	select {
	case <-done:
	case <-ctx.Done():
		ticket.Cancel()
		<-done
	}
	return rollouts, ctx.Err()
}

// take has the sampler load an adapter, until leave is called. If there is no room, it waits for another to leave.
func (c *Choir) take(ctx context.Context, w *Adapter) (*slot, error) {
	if w == nil {
		return &slot{}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return nil, err // the request was cancelled while it waited: load nothing
		}
		c.clock++
		if at := c.slots[w.ID]; at != nil {
			at.users, at.used = at.users+1, c.clock
			return at, nil
		}
		if len(c.slots) >= c.most {
			if !c.dismiss() {
				c.freed.Wait()
			}
			continue
		}
		a, err := w.Load()
		if err != nil {
			return nil, err
		}
		served, err := c.live.Serve(a)
		if err != nil {
			return nil, err
		}
		c.slots[w.ID] = &slot{served: served}
	}
}

// dismiss evicts the least recently used adapter that nobody uses; mu is held.
func (c *Choir) dismiss() bool {
	oldest := ""
	for id, at := range c.slots {
		if at.users == 0 && (oldest == "" || at.used < c.slots[oldest].used) {
			oldest = id
		}
	}
	if oldest == "" {
		return false
	}
	c.live.Withdraw(c.slots[oldest].served)
	delete(c.slots, oldest)
	return true
}

func (c *Choir) leave(at *slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at.users--
	c.freed.Broadcast()
}
