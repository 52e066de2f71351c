// Package choir draws completions for several adapters of a base together.
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

// Adapter is one that does not change. Its ID says which.
type Adapter struct {
	ID   string
	Load func() (*lora.Adapter, error)
}

// Choir is the voice of a base whose sampler serves adapters: requests for several of them are drawn together. Adapters stay
// with the sampler as long as it has room; the one that nobody asked for longest goes first.
type Choir struct {
	live *sampler.Live
	most int // seats; other places of the sampler are for adapters with names

	mu    sync.Mutex // guards what follows
	freed sync.Cond
	seats map[string]*seat // by the adapter's ID
	clock int
}

// seat is an adapter that the sampler has.
type seat struct {
	served *model.Served
	users  int
	used   int
}

// New makes a voice of a sampler, which somebody runs and which has room for adapters.
func New(live *sampler.Live) *Choir {
	c := &Choir{live: live, most: max(1, live.Plan().Adapters/3), seats: map[string]*seat{}}
	c.freed.L = &c.mu
	return c
}

// Sample draws the completions of a request with an adapter, nil for the bare base. It may be called by many goroutines.
func (c *Choir) Sample(ctx context.Context, w *Adapter, r sampler.Request) ([]sampler.Rollout, error) {
	at, err := c.take(ctx, w)
	if err != nil {
		return nil, err
	}
	defer c.leave(at)
	r.Adapter = at.served
	return c.draw(ctx, r)
}

// busy is how long a request waits before it is tried again on a sampler that has no place to wait in.
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
	for errors.Is(err, sampler.ErrBusy) && ctx.Err() == nil { // it was accepted: it waits here
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

// take has the sampler serve an adapter until leave; where there is no room, when somebody else leaves.
func (c *Choir) take(ctx context.Context, w *Adapter) (*seat, error) {
	if w == nil {
		return &seat{}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return nil, err // many may have waited here, for whom nothing is to be loaded
		}
		c.clock++
		if at := c.seats[w.ID]; at != nil {
			at.users, at.used = at.users+1, c.clock
			return at, nil
		}
		if len(c.seats) >= c.most {
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
		c.seats[w.ID] = &seat{served: served}
	}
}

// dismiss withdraws the adapter that nobody reads and that was asked for before all others; mu is held.
func (c *Choir) dismiss() bool {
	oldest := ""
	for id, at := range c.seats {
		if at.users == 0 && (oldest == "" || at.used < c.seats[oldest].used) {
			oldest = id
		}
	}
	if oldest == "" {
		return false
	}
	c.live.Withdraw(c.seats[oldest].served)
	delete(c.seats, oldest)
	return true
}

func (c *Choir) leave(at *seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at.users--
	c.freed.Broadcast()
}
