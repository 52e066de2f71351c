package grammar

import "slices"

// State is the state of one document in progress. It implements sampler.Constraint. It is not safe for concurrent use.
type State struct {
	g        *Grammar
	readings []reading
	accepts  bool // the document may end here, or has ended
	frames   map[frame]*frame
}

// reading is one parse of the text so far.
type reading struct {
	at state
	up *frame // nil: not within a call
}

// frame is a return address. Equal frames are the same pointer, so that equal readings can be merged.
type frame struct {
	then, depth int32
	up          *frame
}

// deepest is the nesting from which on a document has to come to its end.
const deepest = 256

func (r reading) deep() bool { return r.up != nil && r.up.depth >= deepest }

// Start begins a document.
func (g *Grammar) Start() *State {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &State{g: g, frames: map[frame]*frame{}}
	p := g.walker.begin(g.start, false)
	s.accepts = p.left
	s.settle(p, nil)
	return s
}

// Allow sets the bits of the tokens that may come next; the mask has a bit for each row of the vocabulary. After the end,
// only end tokens may come.
func (s *State) Allow(mask []uint32) {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	clear(mask)
	for _, r := range s.readings {
		found := s.g.from(r.at, r.deep())
		found.mark(mask)
		for f := r.up; f != nil && len(found.exits) > 0; f = f.up {
			found = s.g.returning(found, f.then)
			found.mark(mask)
		}
	}
	if s.accepts || len(s.readings) == 0 {
		for _, id := range s.g.voc.ends {
			set(mask, id)
		}
	}
}

// Accept takes the sampled token. If it was not allowed, the document ends incomplete.
func (s *State) Accept(token int32) {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	if slices.Contains(s.g.voc.ends, token) {
		s.readings = nil
		return
	}
	was := s.readings
	s.readings, s.accepts = nil, false
	if token < 0 || int(token) >= s.g.voc.rows {
		return
	}
	text := s.g.voc.texts[token]
	if text == "" {
		s.mark(was, token)
		return
	}
	for _, r := range was {
		if len(text) <= mostBytes {
			s.read(r, text)
		}
	}
}

// Complete reports whether the document could end here, or has ended so. It is false if a token limit cut it off.
func (s *State) Complete() bool { return s.accepts }

// MustEnd reports whether only the end may come.
func (s *State) MustEnd() bool { return len(s.readings) == 0 }

// from is a place to continue at: a return node, after some bytes of a token.
type from struct {
	frame *frame
	at    int
}

// read follows a reading through the bytes of a token, and through the return nodes on the way. It uses one walk for each
// return node and offset, just as Allow finds masks.
func (s *State) read(r reading, text string) {
	w, deep := &s.g.walker, r.deep()
	var todo []from
	follow := func(p *places, at int, base *frame) {
		for {
			if next := (from{base, at}); p.left && !slices.Contains(todo, next) {
				todo = append(todo, next)
			}
			if at == len(text) {
				s.settle(p, base)
				return
			}
			if len(p.threads) == 0 {
				return
			}
			to := w.set(at + 1)
			w.step(p, text[at], to)
			p, at = to, at+1
		}
	}
	follow(w.beginAt(r.at, deep), 0, r.up)
	s.returns(&todo, follow, len(text), deep)
}

// mark follows readings through an added token: by edges for that token, or else by those for any.
func (s *State) mark(was []reading, token int32) {
	for _, kind := range []edgeKind{tokenEdge, saidEdge} {
		if kind == saidEdge && !slices.Contains(s.g.voc.said, token) {
			return
		}
		for _, r := range was {
			n := &s.g.nodes[r.at.node]
			for i := range n.edges {
				if e := &n.edges[i]; e.kind == kind && (kind == saidEdge || e.token == token) {
					s.take(r, n, e)
				}
			}
		}
		if len(s.readings) > 0 || s.accepts {
			return
		}
	}
}

// take follows a reading along one edge that reads the added token.
func (s *State) take(r reading, n *node, e *edge) {
	w, deep := &s.g.walker, r.deep()
	if w.deep = deep; !w.takes(n, e) {
		return
	}
	var todo []from
	follow := func(p *places, _ int, base *frame) {
		if p.left {
			todo = append(todo, from{base, 0})
		}
		s.settle(p, base)
	}
	follow(w.begin(e.to, deep), 0, r.up)
	s.returns(&todo, follow, 0, deep)
}

// returns continues from return nodes until none are left.
func (s *State) returns(todo *[]from, follow func(*places, int, *frame), end int, deep bool) {
	for i := 0; i < len(*todo); i++ {
		switch f := (*todo)[i]; {
		case f.frame != nil:
			follow(s.g.walker.begin(f.frame.then, deep), f.at, f.frame.up)
		case f.at == end:
			s.accepts = true
		}
	}
}

// settle makes readings of the threads of a walk that began above a frame.
func (s *State) settle(p *places, base *frame) {
	for _, t := range p.threads {
		s.addReading(reading{t.at, s.frame(t.up, base)})
	}
}

func (s *State) addReading(r reading) {
	if len(s.readings) < mostReadings && !slices.Contains(s.readings, r) {
		s.readings = append(s.readings, r)
	}
}

func (s *State) frame(at int32, base *frame) *frame {
	if at < 0 {
		return base
	}
	c := s.g.walker.calls[at]
	f := frame{then: c.then, up: s.frame(c.up, base)}
	if f.up != nil {
		f.depth = f.up.depth + 1
	}
	if known, ok := s.frames[f]; ok {
		return known
	}
	s.frames[f] = &f
	return &f
}
