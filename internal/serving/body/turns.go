package body

import (
	"context"
	"sync"
)

// LargeSize is the size from which bodies are parsed one after the other: parsing may take fifty times their memory, and a second.
const LargeSize = 64 << 10

// Turns limit the parsing of large bodies: one at a time per client, and two in all.
type Turns struct {
	all chan struct{}

	mu   sync.Mutex
	each map[string]chan struct{} // by client
}

// NewTurns makes the turns of a server.
func NewTurns() *Turns { return &Turns{all: make(chan struct{}, 2), each: map[string]chan struct{}{}} }

// Take waits for a turn, or for the end of the context. leave ends the turn; it may be called more than once.
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
