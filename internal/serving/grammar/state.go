package grammar

import "slices"

// State is how far one document has come. It is a sampler.Constraint, for one goroutine.
type State struct {
	g        *Grammar
	readings []reading
	accepts  bool // the document may end here, or has
	frames   map[frame]*frame
}

// reading is one way to understand what has been written.
type reading struct {
	at state
	up *frame // nil where nothing has been called
}

// frame is a node to return to. The same frame is the same pointer, so that readings that come to the same are one.
type frame struct {
	then, depth int32
	up          *frame
}

// deepest is the nesting from which on a document is brought to its end.
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

// Allow writes which tokens may come next, in a mask of a bit for each row of the model's vocabulary. After the end it
// is the end again.
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

// Accept takes the token that came. One that was not allowed ends the document, which is then not complete.
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

// Complete tells whether the document is whole: it could end here, or has. One that a limit of tokens cut is not.
func (s *State) Complete() bool { return s.accepts }

// Over tells whether nothing but the end may come.
func (s *State) Over() bool { return len(s.readings) == 0 }

// from is a place to read on from: a node that is returned to after so many bytes of a token.
type from struct {
	frame *frame
	at    int
}

// read follows a reading through the bytes of a token, and through what it returns to on the way, one walk for each
// place that is returned to and each number of bytes, as the masks were found.
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

// mark follows readings through an added token: those that ask for it, or else those that take any.
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

// take follows a reading along one edge that an added token takes.
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

// returns goes on from every node that was returned to, until there is no more.
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
