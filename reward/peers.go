package reward

import (
	"context"
	"sync"
)

// Peers are the completions of one problem that a reward file with compute_rewards judges together. Each waits until all others have
// joined (judge) or left (Leave).
type Peers struct {
	mu       sync.Mutex
	missing  int
	resolved []bool
	texts    []*string // by place; nil: not judged
	ready    chan struct{}

	once     sync.Once
	opinions []opinion // of the texts that are judged, in order
	err      error
}

// NewPeers makes Peers for n completions, with places from 0.
func NewPeers(n int) *Peers {
	return &Peers{missing: n, resolved: make([]bool, n), texts: make([]*string, n), ready: make(chan struct{})}
}

// Leave says that the completion in a place will not be judged. It has no effect after judge, or on nil Peers.
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

// judge joins the completion in a place, waits for the others, has the first caller judge all texts, and returns this one's opinion.
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
