package sampler

import (
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
)

// Serve gives the requests to come an adapter to speak with, between iterations: a copy of its numbers.
func (l *Live) Serve(a *lora.Adapter) (*model.Served, error) {
	l.Turn.Lock()
	defer l.Turn.Unlock()
	served, err := l.s.decoder.Serve(a)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers[served] = 0
	return served, nil
}

// Withdraw refuses requests that name an adapter from now on, waits until none reads it, and gives its memory back. It
// does nothing where the adapter is not served.
func (l *Live) Withdraw(served *model.Served) {
	if l.waitFor(served) {
		l.Turn.Lock()
		defer l.Turn.Unlock()
		l.between.Lock() // the turn is not held by Run while it takes requests in and lets others go
		defer l.between.Unlock()
		l.s.tree.forget(served)
		l.s.decoder.Withdraw(served)
	}
}

// waitFor reports whether an adapter is served, after it has waited for its requests and is served no more.
func (l *Live) waitFor(served *model.Served) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, there := l.readers[served]
	if !there {
		return false
	}
	delete(l.readers, served) // so that no request joins
	for l.leaving[served] = n; l.leaving[served] > 0; {
		l.fewer.Wait()
	}
	delete(l.leaving, served)
	return true
}

// left counts the requests that are done; l.mu is held.
func (l *Live) left() {
	if len(l.s.gone) == 0 {
		return
	}
	for _, served := range l.s.gone {
		if _, there := l.readers[served]; there {
			l.readers[served]--
		} else {
			l.leaving[served]--
		}
	}
	clear(l.s.gone)
	l.s.gone = l.s.gone[:0]
	l.fewer.Broadcast()
}
