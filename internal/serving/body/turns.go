package body

import (
	"context"
	"sync"
)

// Large is a body, in bytes, that is read by turns: what is made of a text may be fifty times as large, and take a second.
const Large = 64 << 10

// Turns are those of large bodies: one at a time of each who asks, and two in all.
type Turns struct {
	all chan struct{}

	mu   sync.Mutex
	each map[string]chan struct{} // by who asks
}

// NewTurns makes the turns of a server.
func NewTurns() *Turns { return &Turns{all: make(chan struct{}, 2), each: map[string]chan struct{}{}} }

// Take waits for a turn, which leave ends, however often it is called; or gives the error of the context.
func (t *Turns) Take(ctx context.Context, who string) (leave func(), err error) {
	t.mu.Lock()
	own := t.each[who]
	if own == nil {
		own = make(chan struct{}, 1)
		t.each[who] = own
	}
	t.mu.Unlock()
	select {
	case own <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case t.all <- struct{}{}:
		return sync.OnceFunc(func() { <-t.all; <-own }), nil
	case <-ctx.Done():
		<-own
		return nil, ctx.Err()
	}
}
