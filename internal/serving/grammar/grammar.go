package grammar

import (
	"slices"
	"sync"
)

// Grammar is a compiled grammar. It is safe for concurrent use.
type Grammar struct {
	voc   *Vocabulary
	nodes []node
	start int32

	mu      sync.Mutex // guards the following fields, a cache
	walker  walker
	results map[place]*result
	bytes   int // of the cached results
}

// place is a state, and whether the nesting is so deep that only short ways out are allowed.
type place struct {
	at   state
	deep bool
}

// result is what may come next from a place, whatever the stack.
type result struct {
	mask   []uint32 // the tokens; if they are few, tokens has them
	tokens []int32
	// exits are the nodes of the trie at which the walk left the subnetwork that it began in. Which tokens below them are
	// allowed depends on the return node.
	exits []int32
	by    map[int32]*result
	deep  bool
}

// mostBytesKept limits the cache of a grammar; when it is full, it is cleared.
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

// from returns the result of a place, from the cache if it is there.
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

// returning returns what else may come if the subnetwork of a result returns to a node.
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
	const about = 200 // rough size of a result itself, with its entry in a map
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
