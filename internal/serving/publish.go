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

// Over is a host of one model that somebody has open already, and computes with. The turn is that of everybody who computes on the
// backend; the caller does not hold it.
func Over(b kernels.Backend, turn sync.Locker, name string, l *sources.Language, p *model.Policy, o sampler.Options) (*Host, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	turn.Lock()
	defer turn.Unlock()
	twin, err := p.Twin() // the bare base, over the same weights
	if err != nil {
		return nil, err
	}
	h := newHost(b, turn, o.Adapters)
	return h, h.enliven(opened{name, l, twin}, o)
}

// ReplaceAdapter has the name of an adapter stand for the one in dir, over the same model, from the next request on. It returns when
// the requests that read the one before are done, and its memory is free. Replacements of one name wait for each other, and for those
// of no other.
func (h *Host) ReplaceAdapter(name, dir string) error {
	defer h.doubled(name)()
	before, err := h.Find(name)
	if err != nil {
		return err
	}
	if before.Adapter == nil {
		return stays(name)
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

// doubled waits until no other adapter of a name is being replaced, and keeps the name so until done is called.
func (h *Host) doubled(name string) (done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.twice[name] {
		h.once.Wait()
	}
	h.twice[name] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.twice, name)
		h.once.Broadcast()
	}
}

// swap has a name stand for another adapter, unless it was unloaded or replaced meanwhile.
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
	return &NotFound{before.Name, names(h.Policies())}
}

// Publish has an adapter of a name, new or not, say what a does from now on: its numbers are copied. Requests that are being
// answered go on with what they began with; freed is closed when they are done, and the memory of what they read is free.
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
