package reward

import (
	"context"
	"sync"
)

// Peers are completions of one problem that a reward file judges together, where it has compute_rewards: nobody is told a reward
// before all of them are there, or are known not to come.
type Peers struct {
	mu       sync.Mutex
	missing  int
	resolved []bool
	texts    []*string // by place; nil of one that is not judged
	ready    chan struct{}

	once     sync.Once
	opinions []opinion // of those that are judged, in order
	err      error
}

// NewPeers expects n completions, each with a place of its own from 0.
func NewPeers(n int) *Peers {
	return &Peers{missing: n, resolved: make([]bool, n), texts: make([]*string, n), ready: make(chan struct{})}
}

// Leave says that the completion in a place is not judged with the others, unless it was already. Nil peers are none.
func (p *Peers) Leave(place int) {
	if p != nil {
		p.resolve(place, nil)
	}
}

func (p *Peers) resolve(place int, text *string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if place < 0 || place >= len(p.resolved) || p.resolved[place] {
		return
	}
	p.resolved[place], p.texts[place] = true, text
	if p.missing--; p.missing == 0 {
		close(p.ready)
	}
}

// judge hands over a completion, and gives what judge says of it once it was asked about all of them, in the order of their places.
func (p *Peers) judge(ctx context.Context, place int, text string, judge func(texts []string) ([]opinion, error)) (o opinion, err error) {
	p.resolve(place, &text)
	select {
	case <-p.ready:
	case <-ctx.Done():
		return o, context.Cause(ctx)
	}
	p.once.Do(func() {
		var texts []string
		for _, t := range p.texts {
			if t != nil {
				texts = append(texts, *t)
			}
		}
		p.opinions, p.err = judge(texts)
	})
	if p.err != nil {
		return o, p.err
	}
	before := 0
	for _, t := range p.texts[:place] {
		if t != nil {
			before++
		}
	}
	return p.opinions[before], nil
}
