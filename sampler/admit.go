package sampler

import "github.com/seed-7879b91d/grpo/model"

// admit starts waiting samples, in order, while there are rows, places and free blocks. It takes
// nothing from samples that run, so the first that does not fit ends it.
func (w *work) admit() {
	for i := 0; i < len(w.samples) && w.active < w.MaxSequences && w.room() > 0; {
		s := w.samples[i]
		if s.state != waiting {
			i++
			continue
		}
		g := s.group
		if !g.ready() && !w.growTrunk(g) {
			return
		}
		if !g.ready() {
			return // its prompt goes on in the next iteration
		}
		if len(s.tokens) > 0 {
			if !w.resume(s) {
				return
			}
			i++
			continue
		}
		if !w.start(i) {
			return
		}
	}
}

// growTrunk computes the next chunk of a prompt, all but its last token. It reports false if there is
// no room for it.
func (w *work) growTrunk(g *group) bool {
	n := min(len(g.request.Prompt)-1-g.cached, w.room())
	if n == 0 || !w.extendTrunk(g, g.cached+n) {
		return false
	}
	for p := g.cached; p < g.cached+n; p++ {
		w.row(g.request.Prompt[p], p)
	}
	g.cached += n
	// The last token joins the same run if it fits, so that a prompt is one run and not two.
	if !g.ready() || w.room() == 0 {
		w.endRun(g.trunk)
	}
	return true
}

// extendTrunk gives a prompt blocks for n positions, if they are free.
func (w *work) extendTrunk(g *group, n int) bool {
	missing := blocksFor(n) - len(g.trunk)
	if missing > len(w.blocks.free) {
		return false
	}
	for range missing {
		block, _ := w.blocks.take()
		g.trunk = append(g.trunk, block)
	}
	return true
}

// start begins the completions of a group from sample i on, as many as there are places for: one row,
// the last of the prompt, and a draw for each. It reports false if none could begin.
func (w *work) start(i int) bool {
	g := w.samples[i].group
	last := len(g.request.Prompt) - 1
	open := w.rowsOpen()
	ok := w.room() > 0 && w.extendTrunk(g, last+1)
	if !ok {
		if open {
			w.endRun(g.trunk)
		}
		return false
	}
	w.row(g.request.Prompt[last], last)
	for ; i < len(w.samples) && w.samples[i].group == g && w.active < w.MaxSequences && len(w.rows.Draws) < w.decoder.Rows; i++ {
		s := w.samples[i]
		if s.state != waiting || len(s.tokens) > 0 {
			continue
		}
		w.begin(s, len(g.trunk))
		s.cached = last + 1
		w.draw(s)
	}
	w.endRun(g.trunk)
	return true
}

// resume begins again with a completion that had to give up its blocks: on the full blocks of its
// prompt, with everything after them computed again, chunk by chunk.
func (w *work) resume(s *sample) bool {
	if blocksFor(s.length())-s.fullTrunk() > len(w.blocks.free) {
		return false
	}
	w.begin(s, min(s.fullTrunk(), len(s.trunk)))
	s.cached = min(len(s.table)*blockTokens, s.length()-1)
	w.advance(s)
	return true
}

// begin puts a sample to work on the first n blocks of its trunk.
func (w *work) begin(s *sample, n int) {
	s.table = append(s.table[:0], s.trunk[:n]...)
	w.blocks.share(s.table)
	s.state = running
	s.group.running++
	w.active++
}

// row adds a row to the run that is being written.
func (w *work) row(token int32, position int) {
	w.rows.Tokens = append(w.rows.Tokens, token)
	w.rows.Positions = append(w.rows.Positions, int32(position))
}

// rowsOpen reports whether rows were added that no run has claimed yet.
func (w *work) rowsOpen() bool {
	return len(w.rows.Tokens) > int(w.rows.Starts[len(w.rows.Starts)-1])
}

// endRun makes the rows added since the last run one of the sequence with that table.
func (w *work) endRun(table []int32) {
	w.rows.Starts = append(w.rows.Starts, int32(len(w.rows.Tokens)))
	w.rows.Tables = append(w.rows.Tables, table...)
	for range w.decoder.TableStride - len(table) {
		w.rows.Tables = append(w.rows.Tables, 0)
	}
}

// draw asks for a sample's next token after the row added last.
func (w *work) draw(s *sample) {
	p := s.request.Params
	d := model.Draw{Row: len(w.rows.Tokens) - 1, TopK: int32(p.TopK), TopP: p.TopP, MinP: p.MinP,
		Uniform: uniform(s.request.Key, s.number, len(s.tokens))}
	if p.TopP == 0 {
		d.TopP = 1
	}
	if p.Temperature > 0 {
		d.InvTemp = 1 / p.Temperature
	}
	w.rows.Draws = append(w.rows.Draws, d)
	w.drawn = append(w.drawn, s)
}
