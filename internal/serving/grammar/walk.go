package grammar

// thread is one reading within a walk: where it is, and what has been called since the walk began.
type thread struct {
	at state
	up int32 // index of a call; -1 where the walk began
}

// call is a node to return to, and what was called before that.
type call struct{ then, up int32 }

// places are the threads of a walk between two bytes.
type places struct {
	threads []thread // at nodes that read something
	left    bool     // and one has returned from where the walk began
	calls   int      // how many calls there were

	seen  []thread            // every place that was come through
	found map[thread]struct{} // the same once they are many
}

// mostReadings is how many readings of a text are followed. What needs more at one time, such as a choice of
// thousands of objects that begin alike, is written by the first ones.
const mostReadings = 4096

func (p *places) reset() {
	p.threads, p.left, p.seen = p.threads[:0], false, p.seen[:0]
	clear(p.found)
}

// fresh notes a place, and tells whether it is new.
func (p *places) fresh(t thread) bool {
	const few = 24
	if len(p.seen) < few {
		for _, s := range p.seen {
			if s == t {
				return false
			}
		}
		p.seen = append(p.seen, t)
		return true
	}
	if len(p.found) == 0 {
		if p.found == nil {
			p.found = map[thread]struct{}{}
		}
		for _, s := range p.seen {
			p.found[s] = struct{}{}
		}
	}
	if _, known := p.found[t]; known {
		return false
	}
	p.found[t] = struct{}{}
	return true
}

// walker reads bytes from a place in the network. The same bytes from the same place lead to the same threads, also
// where these are too many: so a token that was allowed can be accepted.
type walker struct {
	nodes []node
	deep  bool // only the ways to the end with the least nesting are taken
	calls []call
	sets  []*places // by bytes read
	voc   *Vocabulary
	ids   []int32 // the tokens found
	exits []int32
}

func (w *walker) set(depth int) *places {
	for depth >= len(w.sets) {
		w.sets = append(w.sets, &places{})
	}
	return w.sets[depth]
}

// begin starts anew at a node, after whatever can be done there without reading.
func (w *walker) begin(node int32, deep bool) *places {
	w.calls, w.deep = w.calls[:0], deep
	p := w.set(0)
	p.reset()
	w.add(p, state{node: node}, -1)
	p.calls = len(w.calls)
	return p
}

// beginAt starts anew at one reading.
func (w *walker) beginAt(at state, deep bool) *places {
	w.calls, w.deep = w.calls[:0], deep
	p := w.set(0)
	p.reset()
	p.threads = append(p.threads, thread{at, -1})
	p.calls = 0
	return p
}

// add follows what is done at a place without reading.
func (w *walker) add(p *places, at state, up int32) {
	t := thread{at, up}
	if len(p.threads) >= mostReadings || !p.fresh(t) {
		return
	}
	n := &w.nodes[at.node]
	if n.leaf != nil {
		p.threads = append(p.threads, t)
		if !n.leaf.quoted && n.leaf.closes(at) {
			w.add(p, state{node: n.then}, up)
		}
		return
	}
	if n.final {
		w.leave(p, up)
	}
	reads := false
	for i := range n.edges {
		e := &n.edges[i]
		switch {
		case e.kind == bytesEdge || e.kind == tokenEdge || e.kind == saidEdge:
			reads = true
		case !w.takes(n, e):
		case e.kind == freeEdge:
			w.add(p, state{node: e.to}, up)
		default:
			w.add(p, state{node: e.to}, w.push(e.then, up))
		}
	}
	if reads {
		p.threads = append(p.threads, t)
	}
}

// takes tells whether an edge may be taken this deep.
func (w *walker) takes(n *node, e *edge) bool { return !w.deep || rise(w.nodes, *e) <= n.height }

func (w *walker) leave(p *places, up int32) {
	if up < 0 {
		p.left = true
		return
	}
	w.add(p, state{node: w.calls[up].then}, w.calls[up].up)
}

// push notes a call, once. What is called last in its part of the network returns to where that does.
func (w *walker) push(then, up int32) int32 {
	if w.nodes[then].tail {
		return up
	}
	const back = 64
	for i := len(w.calls) - 1; i >= max(0, len(w.calls)-back); i-- {
		if w.calls[i] == (call{then, up}) {
			return int32(i)
		}
	}
	w.calls = append(w.calls, call{then, up})
	return int32(len(w.calls) - 1)
}

// step reads a byte from one set of places into another.
func (w *walker) step(from *places, b byte, to *places) {
	w.calls = w.calls[:from.calls]
	to.reset()
	for _, t := range from.threads {
		n := &w.nodes[t.at.node]
		if n.leaf != nil {
			if n.leaf.quoted && b == '"' && n.leaf.closes(t.at) {
				w.add(to, state{node: n.then}, t.up)
			} else if at, ok := n.leaf.step(t.at, b); ok {
				w.add(to, at, t.up)
			}
			continue
		}
		for i := range n.edges {
			if e := &n.edges[i]; e.kind == bytesEdge && e.lo <= b && b <= e.hi && w.takes(n, e) {
				w.add(to, state{node: e.to}, t.up)
			}
		}
	}
	to.calls = len(w.calls)
}

// below finds the tokens below a node of the trie that can be read from the places of set 0, and the nodes where some
// reading has returned from where the walk began.
func (w *walker) below(top int32) {
	t := &w.voc.trie
	for i, end := top+1, t.next[top]; i < end; {
		d := int(t.depth[i] - t.depth[top])
		from, to := w.set(d-1), w.set(d)
		w.step(from, t.label[i], to)
		if len(to.threads) == 0 && !to.left {
			i = t.next[i]
			continue
		}
		if w.plain(to, i) {
			w.ids = append(w.ids, t.below(i)...)
			i = t.next[i]
			continue
		}
		w.ids = append(w.ids, t.own(i)...)
		if to.left && !t.leaf(i) {
			w.exits = append(w.exits, i)
		}
		if len(to.threads) == 0 {
			i = t.next[i]
		} else {
			i++
		}
	}
}

// plain tells whether everything below a node of the trie can be read, because it stays within the string that the only thread is in.
func (w *walker) plain(p *places, i int32) bool {
	if len(p.threads) != 1 || p.left || w.voc.trie.plain[i] == 0 {
		return false
	}
	at := p.threads[0].at
	l := w.nodes[at.node].leaf
	return l != nil && l.plain() && at.part == 0 && (l.most < 0 || l.most-at.count >= int32(w.voc.trie.plain[i])-1)
}
