package serving

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// NewHostOver is a host of one model that the caller has open and computes with too. turn is the lock for the backend; the caller does
// not hold it.
func NewHostOver(b kernels.Backend, turn sync.Locker, name string, l *sources.Language, p *model.Policy, o sampler.Options) (*Host, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	turn.Lock()
	defer turn.Unlock()
	twin, err := p.Twin() // the base model without its adapter, sharing the weights
	if err != nil {
		return nil, err
	}
	h := newHost(b, turn, o.Adapters)
	return h, h.startSampler(opened{name, l, twin}, o)
}

// ReplaceAdapter makes the name of an adapter stand for the one in dir, over the same model, from the next request on. It returns
// when the requests that use the old one are done and its memory is free. Replacements of the same name wait for each other.
func (h *Host) ReplaceAdapter(name, dir string) error {
	defer h.lockReplacement(name)()
	before, err := h.Find(name)
	if err != nil {
		return err
	}
	if before.Adapter == nil {
		return notAnAdapter(name)
	}
	served, err := load(before, dir)
	if err != nil {
		return fmt.Errorf("adapter %s: %w", name, err)
	}
	if err := h.swap(before, served); err != nil {
		return err
	}
	before.Live.Withdraw(before.Adapter)
	return nil
}

// lockReplacement waits until no other replacement of a name is in progress, and blocks others until done is called.
func (h *Host) lockReplacement(name string) (done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.replacing[name] {
		h.once.Wait()
	}
	h.replacing[name] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.replacing, name)
		h.once.Broadcast()
	}
}

// swap makes a name stand for another adapter, unless it was unloaded or replaced in the meantime.
func (h *Host) swap(before *Policy, served *model.Served) error {
	h.mu.Lock()
	i, found := slices.BinarySearchFunc(h.policies, before.Name, byName)
	if found = found && h.policies[i].Adapter == before.Adapter; found {
		h.policies[i].Adapter, h.policies[i].Created = served, time.Now()
	}
	h.mu.Unlock()
	if found {
		return nil
	}
	before.Live.Withdraw(served)
	return &NotFoundError{before.Name, names(h.Policies())}
}

// Publish copies a, and makes it the adapter of that name, new or not, for the requests to come. Requests in progress
// continue with the old version; freed is closed when they are done and its memory is free.
func (h *Host) Publish(name, base string, a *lora.Adapter) (freed <-chan struct{}, err error) {
	done := make(chan struct{})
	before, err := h.Find(name)
	if err != nil {
		close(done)
		return done, h.serve(name, base, func(below *Policy) (*model.Served, error) { return below.Live.Serve(a) })
	}
	if before.Adapter == nil || before.Base != base {
		return nil, taken(name)
	}
	served, err := before.Live.Serve(a)
	if err != nil {
		return nil, fmt.Errorf("adapter %s: %w", name, err)
	}
	if err := h.swap(before, served); err != nil {
		return nil, err
	}
	go func() {
		defer close(done)
		before.Live.Withdraw(before.Adapter)
	}()
	return done, nil
}
