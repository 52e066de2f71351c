package sampler

import (
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
)

// Serve copies an adapter to the decoder, between iterations, so that requests can name it.
func (l *Live) Serve(a *lora.Adapter) (*model.Served, error) {
	l.Turn.Lock()
	defer l.Turn.Unlock()
	served, err := l.s.decoder.Serve(a)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users[served] = 0
	return served, nil
}

// Withdraw removes an adapter: it refuses new requests for it, waits for those that use it, and frees its memory. It does
// nothing if the adapter is not served.
func (l *Live) Withdraw(served *model.Served) {
	if l.waitFor(served) {
		l.Turn.Lock()
		defer l.Turn.Unlock()
		l.between.Lock() // Run adds and removes requests without holding Turn
		defer l.between.Unlock()
		l.s.tree.forget(served)
		l.s.decoder.Withdraw(served)
	}
}

// waitFor stops serving an adapter and waits for its requests. It reports false if it was not served.
func (l *Live) waitFor(served *model.Served) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, there := l.users[served]
	if !there {
		return false
	}
	delete(l.users, served) // SubmitAll refuses it from now on
	for l.lastUsers[served] = n; l.lastUsers[served] > 0; {
		l.fell.Wait()
	}
	delete(l.lastUsers, served)
	return true
}

// left counts down the requests of adapters that have finished; l.mu is held.
func (l *Live) left() {
	if len(l.s.doneAdapters) == 0 {
		return
	}
	for _, served := range l.s.doneAdapters {
		if _, there := l.users[served]; there {
			l.users[served]--
		} else {
			l.lastUsers[served]--
		}
	}
	clear(l.s.doneAdapters)
	l.s.doneAdapters = l.s.doneAdapters[:0]
	l.fell.Broadcast()
}
