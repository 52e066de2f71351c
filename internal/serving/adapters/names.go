package adapters

import (
	"context"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// names serialises requests about the same adapter, so that nobody loads or unloads it between a check and a replacement. Requests
// about other adapters do not wait.
type names struct {
	mu   sync.Mutex
	busy map[string]*line
}

// line is the queue for one name.
type line struct {
	turn chan struct{} // full while a request is in progress
	in   int           // requests in progress or waiting; the last one removes the line
}

// take waits for the name; leave releases it.
func (n *names) take(ctx context.Context, name string) (leave func(), err error) {
	n.mu.Lock()
	if n.busy == nil {
		n.busy = map[string]*line{}
	}
	l := n.busy[name]
	if l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		n.busy[name] = l
	}
	l.in++
	n.mu.Unlock()
	select {
	case l.turn <- struct{}{}:
		return func() { <-l.turn; n.left(name, l) }, nil
	case <-ctx.Done():
		n.left(name, l)
		return nil, refusal.ContextError(ctx)
	}
}

func (n *names) left(name string, l *line) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.in--; l.in == 0 {
		delete(n.busy, name)
	}
}
