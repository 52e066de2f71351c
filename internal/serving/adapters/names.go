package adapters

import (
	"context"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// names have their requests wait for each other: between looking whether an adapter is loaded and replacing it, nobody else loads or
// unloads one of that name. Those of different names do not wait.
type names struct {
	mu   sync.Mutex
	busy map[string]*line
}

// line is where the requests of a name stand.
type line struct {
	turn chan struct{} // has one while a request is at work
	in   int           // requests, at work and waiting: the last of them takes the line away
}

// take waits for the turn of a request, which leave ends.
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
		return nil, refusal.Left(ctx)
	}
}

func (n *names) left(name string, l *line) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.in--; l.in == 0 {
		delete(n.busy, name)
	}
}
