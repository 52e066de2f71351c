// Package multilora samples for several adapters of one base model in the same batches.
package multilora

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

// Sampler samples with any adapter of a base model, on a sampler.Live that batches requests for different adapters together.
// Adapters stay loaded while there is room; the least recently used one is evicted.
type Sampler struct {
	live     *sampler.Live
	maxSlots int // of live's slots for adapters; the others are for named adapters

	mu    sync.Mutex // guards the following fields
	freed sync.Cond
	slots map[string]*slot // by adapter ID
	clock int              // counts requests
}

// slot is a loaded adapter.
type slot struct {
	served   *model.Served
	users    int // requests in progress with it
	lastUsed int // clock of the last request
}

// New makes a Sampler on live, which the caller runs.
func New(live *sampler.Live) *Sampler {
	s := &Sampler{live: live, maxSlots: max(1, live.Plan().Adapters/3), slots: map[string]*slot{}}
	s.freed.L = &s.mu
	return s
}

// Sample samples the completions of a request with an adapter; nil is the bare base. It may be called by many goroutines.
func (s *Sampler) Sample(ctx context.Context, w *Adapter, r sampler.Request) ([]sampler.Rollout, error) {
	at, err := s.acquire(ctx, w)
	if err != nil {
		return nil, err
	}
	defer s.release(at)
	r.Adapter = at.served
	return s.draw(ctx, r)
}

// retryPause is the pause before a request is submitted again to a sampler whose queue is full.
const retryPause = 50 * time.Millisecond

// draw samples all completions of a request.
func (s *Sampler) draw(ctx context.Context, r sampler.Request) ([]sampler.Rollout, error) {
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
	ticket, err := s.live.Submit(r, on)
	for errors.Is(err, sampler.ErrBusy) && ctx.Err() == nil { // the request was accepted, so it has to wait here
		time.Sleep(retryPause)
		ticket, err = s.live.Submit(r, on)
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

// acquire loads an adapter, and keeps it loaded until release is called. While all slots are in use, it waits.
func (s *Sampler) acquire(ctx context.Context, w *Adapter) (*slot, error) {
	if w == nil {
		return &slot{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return nil, err // the request was cancelled while it waited: load nothing
		}
		s.clock++
		if at := s.slots[w.ID]; at != nil {
			at.users, at.lastUsed = at.users+1, s.clock
			return at, nil
		}
		if len(s.slots) >= s.maxSlots {
			if !s.evict() {
				s.freed.Wait()
			}
			continue
		}
		a, err := w.Load()
		if err != nil {
			return nil, err
		}
		served, err := s.live.Serve(a)
		if err != nil {
			return nil, err
		}
		s.slots[w.ID] = &slot{served: served}
	}
}

// evict evicts the least recently used adapter that nobody uses; mu is held.
func (s *Sampler) evict() bool {
	oldest := ""
	for id, at := range s.slots {
		if at.users == 0 && (oldest == "" || at.lastUsed < s.slots[oldest].lastUsed) {
			oldest = id
		}
	}
	if oldest == "" {
		return false
	}
	s.live.Withdraw(s.slots[oldest].served)
	delete(s.slots, oldest)
	return true
}

func (s *Sampler) release(at *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at.users--
	s.freed.Broadcast()
}
