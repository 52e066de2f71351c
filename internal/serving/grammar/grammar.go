package grammar

import (
	"slices"
	"sync"
)

// Grammar is what documents may be. Any number of goroutines may use one.
type Grammar struct {
	voc   *Vocabulary
	nodes []node
	start int32

	mu      sync.Mutex // what follows grows as the grammar is used
	walker  walker
	results map[place]*result
	bytes   int // of results
}

// place is a node as a walk over the trie sees it.
type place struct {
	at   state
	deep bool
}

// result is what may come from a place, whatever it returns to.
type result struct {
	mask   []uint32 // the tokens, or where they are few
	tokens []int32
	// exits are the nodes of the trie at which the part of the network that the walk began in has been left. What
	// lies below them depends on the node that is returned to.
	exits []int32
	by    map[int32]*result
	deep  bool
}

// mostBytesKept bounds the results of a grammar; beyond it they are forgotten and found again.
const mostBytesKept = 32 << 20

func newGrammar(b *builder, start int32) (*Grammar, error) {
	if err := b.finish(start); err != nil {
		return nil, err
	}
	return &Grammar{
		voc: b.voc, nodes: b.nodes, start: start, results: map[place]*result{},
		walker: walker{nodes: b.nodes, voc: b.voc},
	}, nil
}

// from gives what may come at a place.
func (g *Grammar) from(at state, deep bool) *result {
	n := &g.nodes[at.node]
	key := place{at, deep}
	if n.leaf != nil {
		key.at = n.leaf.alike(at, int32(g.voc.trie.longest))
	}
	if r, ok := g.results[key]; ok {
		return r
	}
	w := &g.walker
	w.ids, w.exits = w.ids[:0], w.exits[:0]
	w.beginAt(at, deep)
	w.below(0)
	for i := range n.edges {
		switch e := &n.edges[i]; {
		case !w.takes(n, e):
		case e.kind == tokenEdge:
			w.ids = append(w.ids, e.token)
		case e.kind == saidEdge:
			w.ids = append(w.ids, g.voc.said...)
		}
	}
	r := g.keep(deep)
	g.results[key] = r
	return r
}

// returning gives what more may come where a result's part of the network returns to a node.
func (g *Grammar) returning(r *result, then int32) *result {
	if next, ok := r.by[then]; ok {
		return next
	}
	w := &g.walker
	w.ids, w.exits = w.ids[:0], w.exits[:0]
	if p := w.begin(then, r.deep); p.left {
		w.exits = append(w.exits, r.exits...)
	}
	for _, e := range r.exits {
		w.below(e)
	}
	next := g.keep(r.deep)
	if r.by == nil {
		r.by = map[int32]*result{}
	}
	r.by[then] = next
	return next
}

// keep makes a result of what the walker found.
func (g *Grammar) keep(deep bool) *result {
	w := &g.walker
	slices.Sort(w.exits)
	r := &result{exits: slices.Clone(slices.Compact(w.exits)), deep: deep}
	if words := g.voc.words(); len(w.ids) < words {
		slices.Sort(w.ids)
		r.tokens = slices.Clone(slices.Compact(w.ids))
	} else {
		r.mask = make([]uint32, words)
		for _, id := range w.ids {
			set(r.mask, id)
		}
	}
	const about = 200 // bytes of a result itself, with its place in a map
	g.bytes += about + 4*(len(r.mask)+len(r.tokens)+len(r.exits))
	if g.bytes > mostBytesKept {
		g.results, g.bytes = map[place]*result{}, 0
	}
	return r
}

// mark adds the tokens of a result to a mask.
func (r *result) mark(mask []uint32) {
	for i, word := range r.mask {
		mask[i] |= word
	}
	for _, id := range r.tokens {
		set(mask, id)
	}
}
