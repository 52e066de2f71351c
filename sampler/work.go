package sampler

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// work is one call of Sample. Samples are served in the order of the requests: the first that is not
// finished always goes on, so that the whole always ends.
type work struct {
	*Engine
	on       Events
	groups   []*group
	samples  []*sample // all of them, in order
	open     int
	active   int // samples that run
	begun    int // of them in this iteration
	rollouts []Rollout

	rows     model.Rows
	drawn    []*sample // who gets the token of each draw
	to, from []int32   // blocks to be copied before the run
}

func newWork(e *Engine, requests []Request, on Events) *work {
	w := &work{Engine: e, on: on}
	for i, r := range requests {
		g := &group{index: i, request: r, stops: map[int32]bool{}, open: r.N}
		for _, t := range r.Params.StopTokens {
			g.stops[t] = true
		}
		w.groups = append(w.groups, g)
		for n := range r.N {
			s := &sample{group: g, number: n}
			if r.Params.Watch != nil {
				s.watch = r.Params.Watch()
			}
			w.samples = append(w.samples, s)
		}
	}
	w.open = len(w.samples)
	w.rollouts = make([]Rollout, len(w.samples))
	return w
}

// compose decides the rows of the next iteration: the next token of every sample that runs, then, as
// far as the budget goes, samples that wait and the prompts that they need.
func (w *work) compose() {
	w.rows.Reset()
	w.drawn, w.to, w.from = w.drawn[:0], w.to[:0], w.from[:0]
	w.begun = 0
	for _, s := range w.samples {
		if s.state == running {
			w.advance(s)
		}
	}
	w.admit()
	w.decoder.CopyBlocks(w.to, w.from)
	if len(w.rows.Tokens) == 0 {
		panic(fmt.Sprintf("sampler: nothing to do for %d samples with %d of %d blocks free", w.open, len(w.blocks.free), w.Blocks))
	}
}

// room is how many rows the iteration still takes.
func (w *work) room() int {
	if len(w.rows.Starts)-1 >= w.decoder.Sequences {
		return 0
	}
	return w.TokenBudget - len(w.rows.Tokens)
}

// advance adds the rows of a running sample: one, or a chunk when it is computed again.
func (w *work) advance(s *sample) {
	n := min(s.length()-s.cached, w.room())
	if n == 0 || !w.reserve(s, n) {
		return
	}
	for p := s.cached; p < s.cached+n; p++ {
		w.row(s.token(p), p)
	}
	if s.cached += n; s.cached == s.length() {
		w.draw(s)
	}
	w.endRun(s.table)
}

// reserve makes the next n positions of a running sample writable, at the cost of younger ones if need
// be. It reports false if the sample itself had to give up.
func (w *work) reserve(s *sample, n int) bool {
	first, end := s.cached/kernels.CacheBlock, blocksFor(s.cached+n)
	missing := end - len(s.table)
	for _, block := range s.table[min(first, len(s.table)):] {
		if w.blocks.shared(block) {
			missing++ // to be copied on write
		}
	}
	for len(w.blocks.free) < missing {
		if w.dropIdleTrunk(s.group) {
			continue
		}
		victim := w.youngest()
		w.evict(victim)
		w.Preempted++
		if victim == s {
			return false
		}
	}
	w.own(s, first, end)
	return true
}

// own gives a sample blocks [first, end) for itself alone, from those that are free.
func (w *work) own(s *sample, first, end int) {
	for b := first; b < end; b++ {
		if b < len(s.table) && !w.blocks.shared(s.table[b]) {
			continue
		}
		block := w.blocks.take()
		if b == len(s.table) {
			s.table = append(s.table, block)
			continue
		}
		w.to, w.from = append(w.to, block), append(w.from, s.table[b])
		w.blocks.drop(s.table[b : b+1])
		s.table[b] = block
	}
}

// youngest is the last sample that runs and has no rows in this iteration yet. Samples are served in
// order, so that is any one behind the sample being served, or that one itself.
func (w *work) youngest() *sample {
	for i := len(w.samples) - 1; ; i-- {
		if w.samples[i].state == running {
			return w.samples[i]
		}
	}
}

// evict takes a sample's place in the cache. It keeps its tokens and will be computed again.
func (w *work) evict(s *sample) {
	w.blocks.drop(s.table)
	s.table, s.cached, s.state = nil, 0, waiting
	s.group.running--
	w.active--
}

// dropIdleTrunk gives up the last prompt that no running sample stands on, other than keep's. While
// samples are served, rows of such a prompt are not among those of the iteration.
func (w *work) dropIdleTrunk(keep *group) bool {
	for i := len(w.groups) - 1; i >= 0; i-- {
		g := w.groups[i]
		if g != keep && g.running == 0 && len(g.trunk) > 0 {
			w.blocks.drop(g.trunk)
			g.trunk, g.cached = nil, 0
			return true
		}
	}
	return false
}
