package sampler

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/model"
)

// scheduler decides what each iteration computes. Requests are added at any time between iterations, and
// leave when they are finished. Sequences are served in an order, in which the first that is not finished always
// goes on, so that the whole always ends: that of the requests, or, in a Live, the one that turns.go has.
type scheduler struct {
	*Engine
	groups    []*group    // not finished, in the order in which they were added; of a Live in that of their turns
	sequences []*sequence // of all groups, in order
	reorder   bool        // a Live's are not, as some came or ended
	short     bool        // what was to begin last lacked blocks
	running   int
	reserved  int // places of those whose prompts are computed before they begin; in a Live
	parked    int
	replies   *replies
	admitted  int  // those of the running that began in this iteration
	drawing   int  // those of them that wait for a token in this iteration
	behind    int  // running sequences that are yet to be served in this iteration
	most      int  // rows of this iteration
	room      int  // of them for those that begin
	ended     bool // some are finished, and still among groups and sequences

	tree  *tree    // of a Live; nil: nothing is remembered
	pace  pace     // of a Live
	grown []*group // whose prompts have rows in this iteration

	gone []*model.Served // an adapter of each request that was forgotten, until a Live has looked

	rows, arranged   model.Rows
	drawn            []asked // who gets the token of each draw
	copyTo, copyFrom []int32 // blocks to be copied before the iteration
}

// add takes a request in, behind all others.
func (s *scheduler) add(g *group) {
	g.job = s.jobOf(g.request)
	s.groups = append(s.groups, g)
	for n := range g.request.N {
		q := &sequence{group: g, sample: n}
		q.open(g.request.Params.MaxTokens)
		g.left = append(g.left, q)
	}
	s.sequences = append(s.sequences, g.left...)
	s.reorder = true
}

// iterate computes one iteration, and hands out what it drew.
func (s *scheduler) iterate() error {
	s.schedule()
	start := s.now()
	drawn, err := s.decoder.Run(&s.rows)
	took := s.now().Sub(start)
	s.settle(err == nil)
	if err == nil {
		s.Computed += len(s.rows.Tokens)
		s.accept(drawn, took)
	}
	return err
}

// schedule decides the rows of the next iteration: those of the running sequences first, then, as far as
// the budget goes, those of sequences that are admitted and of the prefixes that they need.
func (s *scheduler) schedule() {
	s.rows.Reset()
	s.drawn, s.copyTo, s.copyFrom = s.drawn[:0], s.copyTo[:0], s.copyFrom[:0]
	s.takeTurns()
	s.prepare()
	s.admitted, s.behind, s.most = 0, s.running, s.TokenBudget
	for _, q := range s.sequences {
		if q.state == running {
			s.behind--
			s.advance(q)
		}
	}
	s.behind = 0
	s.bound()
	s.admit()
	s.arrange()
	if len(s.rows.Masks) > 0 {
		s.allowAll()
	}
	s.decoder.CopyBlocks(s.copyTo, s.copyFrom)
	if len(s.rows.Tokens) == 0 {
		panic(fmt.Sprintf("sampler: nothing to do for %d sequences with %d of %d blocks free", len(s.sequences), len(s.blocks.free), s.Blocks))
	}
}

// advance adds the rows of a running sequence: one to decode, or a chunk when it is recomputed.
func (s *scheduler) advance(q *sequence) {
	s.slide(q)
	n := s.chunk(q)
	if n == 0 || !s.allocate(q, n) {
		return
	}
	for p := q.computed; p < q.computed+n; p++ {
		s.addRow(q.token(p), p)
	}
	s.count(&q.reached, q.computed, n)
	if q.computed += n; q.computed == q.length() {
		s.addDraw(q, 0)
		s.draft(q)
	}
	s.endRun(q.group, q.table)
}

// admit starts waiting sequences, in order, while there are rows, places and free blocks. It preempts
// nothing, so the first that does not fit ends it.
func (s *scheduler) admit() {
	s.reserved, s.short = 0, false
	for i, q := range s.sequences {
		if q.state != waiting || q.grown {
			continue
		}
		if s.running+s.reserved >= s.MaxSequences || s.budget() == 0 || s.drawsLeft() == 0 {
			return
		}
		ok := false
		switch {
		case len(q.tokens) == 0:
			ok = s.start(i)
		case q.table != nil:
			ok = s.rejoin(q)
		default:
			ok = s.resume(q)
		}
		if !ok {
			s.short = s.short && q.job.running == 0
			return
		}
		if s.short = false; q.state == waiting {
			s.reserved++
		}
	}
}

// start admits sequences of one group, from number i among all on, as many as there are places for: what
// the cache lacks of their prefix, its last token, and after that a draw for each. It reports false if
// none could start yet, and others are to wait for them.
func (s *scheduler) start(i int) bool {
	g := s.sequences[i].group
	last := len(g.request.Prompt) - 1
	g.prefilled = min(g.prefilled, last) // the last row is what draws follow, so it is computed again
	if !s.prefill(g, last+1) {
		return false
	}
	if g.prefilled > last {
		for _, q := range s.beginning(i) {
			if !s.canStart() {
				break
			}
			s.fork(q, len(g.prefix))
			q.computed, q.reached = last+1, last+1
			s.addDraw(q, 0)
		}
	}
	s.endRun(g, g.prefix)
	return g.running > 0 || g.prefilled <= last
}

// canStart reports whether another sequence may start: it will need a block soon, as will each that has
// just been admitted.
func (s *scheduler) canStart() bool {
	if s.running >= s.MaxSequences || s.drawsLeft() == 0 {
		return false
	}
	s.short = s.running > 0 && !s.spare(s.admitted+1)
	return !s.short
}

// resume admits a sequence that was preempted: on the full blocks of its prefix, or of more where that is remembered,
// with everything after them recomputed, chunk by chunk.
func (s *scheduler) resume(q *sequence) bool {
	shared := s.fullPrefix(q.group)
	if table := s.recallSequence(q, shared); table != nil {
		return s.resumeOn(q, table)
	}
	if q.prefilled < shared*s.Block {
		grown := s.prefill(q.group, shared*s.Block)
		s.endRun(q.group, q.prefix)
		if !grown {
			return false
		}
		if q.prefilled < shared*s.Block || s.budget() == 0 {
			return true // the prefix goes on in the next iteration
		}
	}
	if !s.makeRoom(s.blocksFor(q.length())-shared, q.group) {
		return false
	}
	s.fork(q, shared)
	q.computed = shared * s.Block
	s.advance(q)
	return true
}

// fork lets a sequence run on the first n blocks of its prefix, which it shares.
func (s *scheduler) fork(q *sequence, n int) {
	s.blocks.retain(q.prefix[:n])
	s.begin(q, append(q.table[:0], q.prefix[:n]...))
}

// begin lets a sequence run on a table that it has references to.
func (s *scheduler) begin(q *sequence, table []int32) {
	q.table, q.state = table, running
	q.group.running++
	q.job.running++
	s.running++
	s.admitted++
}
