package sampler

import (
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// admit starts waiting samples, in order, while there are rows, places and free blocks. It takes
// nothing from samples that run, so the first that does not fit ends it.
func (w *work) admit() {
	for i, s := range w.samples {
		if s.state != waiting {
			continue
		}
		if w.active >= w.MaxSequences || w.room() == 0 {
			return
		}
		ok := false
		if len(s.tokens) == 0 {
			ok = w.start(i)
		} else {
			ok = w.resume(s)
		}
		if !ok {
			return
		}
	}
}

// spare reports whether n blocks are free, after giving up idle prompts of later groups if need be.
func (w *work) spare(n int, g *group) bool {
	for len(w.blocks.free) < n {
		if !w.dropIdleTrunk(g) {
			return false
		}
	}
	return true
}

// growTrunk adds rows of a prompt up to position end, as far as the budget goes, to the open run. It
// reports false if the blocks for them are not free.
func (w *work) growTrunk(g *group, end int) bool {
	n := max(0, min(end-g.cached, w.room()))
	missing := blocksFor(g.cached+n) - len(g.trunk)
	if !w.spare(missing, g) {
		return false
	}
	for range missing {
		g.trunk = append(g.trunk, w.blocks.take())
	}
	for range n {
		w.row(g.request.Prompt[g.cached], g.cached)
		g.cached++
	}
	return true
}

// start begins the completions of a group from sample i on, as many as there are places for: what the
// cache lacks of the prompt, its last token, and after that a draw for each. It reports false if none
// could begin yet.
func (w *work) start(i int) bool {
	g := w.samples[i].group
	last := len(g.request.Prompt) - 1
	g.cached = min(g.cached, last) // the last row is what draws follow, so it is computed again
	if !w.growTrunk(g, last+1) {
		return false
	}
	if g.cached > last {
		for ; i < len(w.samples) && w.samples[i].group == g && w.fitsOneMore(); i++ {
			if s := w.samples[i]; s.state == waiting && len(s.tokens) == 0 {
				w.begin(s, len(g.trunk))
				s.cached = last + 1
				w.draw(s)
			}
		}
	}
	w.endRun(g.trunk)
	return g.running > 0
}

// fitsOneMore reports whether another sample may begin: it will need a block soon, as will each that
// has just begun.
func (w *work) fitsOneMore() bool {
	return w.active < w.MaxSequences && len(w.rows.Draws) < w.decoder.Rows && (w.active == 0 || len(w.blocks.free) > w.begun)
}

// resume begins again with a completion that had to give up its blocks: on the full blocks of its
// prompt, with everything after them computed again, chunk by chunk.
func (w *work) resume(s *sample) bool {
	shared := s.fullTrunk()
	if s.group.cached < shared*kernels.CacheBlock {
		grown := w.growTrunk(s.group, shared*kernels.CacheBlock)
		w.endRun(s.trunk)
		if !grown || s.group.cached < shared*kernels.CacheBlock || w.room() == 0 {
			return false // the prompt goes on in the next iteration
		}
	}
	if !w.spare(blocksFor(s.length())-shared, s.group) {
		return false
	}
	w.begin(s, shared)
	s.cached = shared * kernels.CacheBlock
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
	w.begun++
}

// row adds a row to the run that is being written.
func (w *work) row(token int32, position int) {
	w.rows.Tokens = append(w.rows.Tokens, token)
	w.rows.Positions = append(w.rows.Positions, int32(position))
}

// endRun makes the rows added since the last run, if any, one of the sequence with that table.
func (w *work) endRun(table []int32) {
	if len(w.rows.Tokens) == int(w.rows.Starts[len(w.rows.Starts)-1]) {
		return
	}
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
