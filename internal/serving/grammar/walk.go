package grammar

// thread is one reading within a walk: its state, and the calls since the walk began.
type thread struct {
	at state
	up int32 // index of the innermost call; -1: none
}

// call is a return node, and the call around it.
type call struct{ then, up int32 }

// places are the threads of a walk after some bytes.
type places struct {
	threads []thread // those at nodes that read something
	left    bool     // some thread has returned from the subnetwork where the walk began
	calls   int      // how many calls there were

	seen  []thread            // every state that was passed
	found map[thread]struct{} // the same as a set, once they are many
}

// mostReadings limits how many readings are followed. If a grammar needs more at once, such as a choice of thousands of
// objects that begin alike, only the first are used.
const mostReadings = 4096

func (p *places) reset() {
	p.threads, p.left, p.seen = p.threads[:0], false, p.seen[:0]
	clear(p.found)
}

// fresh records a state, and reports whether it is new.
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

// walker walks through bytes from a place in the network. It is deterministic, even if there are too many readings, so
// that every token that was allowed can also be accepted.
type walker struct {
	nodes []node
	deep  bool // only take the ways to the end with the least nesting
	calls []call
	sets  []*places // by number of bytes read
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

// begin starts at a node, following edges that read nothing.
func (w *walker) begin(node int32, deep bool) *places {
	w.calls, w.deep = w.calls[:0], deep
	p := w.set(0)
	p.reset()
	w.add(p, state{node: node}, -1)
	p.calls = len(w.calls)
	return p
}

// beginAt starts at one state.
func (w *walker) beginAt(at state, deep bool) *places {
	w.calls, w.deep = w.calls[:0], deep
	p := w.set(0)
	p.reset()
	p.threads = append(p.threads, thread{at, -1})
	p.calls = 0
	return p
}

// add adds a state, and those that are reached from it without reading.
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

// takes reports whether an edge may be taken at this depth.
func (w *walker) takes(n *node, e *edge) bool { return !w.deep || rise(w.nodes, *e) <= n.height }

func (w *walker) leave(p *places, up int32) {
	if up < 0 {
		p.left = true
		return
	}
	w.add(p, state{node: w.calls[up].then}, w.calls[up].up)
}

// push records a call, once. A tail call returns to where its caller returns.
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

// step reads a byte, from one set of places into another.
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

// below finds the tokens below a node of the trie that can be read from the places of set 0, and the trie nodes at which
// a reading has left the subnetwork.
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

// plain reports whether everything below a node of the trie can be read, because it stays within the string that the only thread is in.
func (w *walker) plain(p *places, i int32) bool {
	if len(p.threads) != 1 || p.left || w.voc.trie.plain[i] == 0 {
		return false
	}
	at := p.threads[0].at
	l := w.nodes[at.node].leaf
	return l != nil && l.plain() && at.part == 0 && (l.most < 0 || l.most-at.count >= int32(w.voc.trie.plain[i])-1)
}
