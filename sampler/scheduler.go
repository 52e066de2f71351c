package sampler

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/model"
)

// scheduler decides what each iteration computes. Requests are added between iterations, and leave when they
// are finished. Sequences are served in order: that of the requests, or in a Live that of turns.go. The first
// unfinished one always makes progress, so that every run terminates.
type scheduler struct {
	*Engine
	groups       []*group    // not finished, in the order in which they were added; in a Live in the order of their turns
	sequences    []*sequence // of all groups, in the order in which they are served
	reorder      bool        // a Live must put sequences in order again, as some came or finished
	lackedBlocks bool        // the last sequence that was to start lacked blocks
	running      int         // number of running sequences
	reserved     int         // places kept for sequences whose prompts are being prefilled; in a Live
	parked       int         // number of parked sequences
	replies      *replies
	anyFinished  bool // some sequences are finished, but still listed

	// Of the iteration that is being built:
	admitted    int // running sequences that started in it
	decodeDraws int // draws of sequences that were running before it, drafts included
	unserved    int // running sequences that have no rows in it yet
	maxRows     int // the most rows that it may have
	startRows   int // rows of it that are left for sequences that start

	tree       *tree    // the prefix cache of a Live; else nil
	pace       pace     // of a Live
	prefilling []*group // groups whose prompts have rows in this iteration

	doneAdapters []*model.Served // adapters of requests that finished, one entry for each, until Live.left has counted them

	rows, arranged   model.Rows
	drawn            []asked // for each draw of rows: what it is for
	copyTo, copyFrom []int32 // blocks to copy before the iteration: copy-on-write
}

// add appends a request, behind all others.
func (s *scheduler) add(g *group) {
	g.job = s.jobOf(g.request)
	s.groups = append(s.groups, g)
	for n := range g.request.N {
		q := &sequence{group: g, sample: n}
		q.open(g.request.Params.MaxTokens)
		g.pending = append(g.pending, q)
	}
	s.sequences = append(s.sequences, g.pending...)
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

// schedule builds the rows of the next iteration: first those of running sequences, then, up to the
// budget, those of sequences that it admits and of the prefixes that these need.
func (s *scheduler) schedule() {
	s.rows.Reset()
	s.drawn, s.copyTo, s.copyFrom = s.drawn[:0], s.copyTo[:0], s.copyFrom[:0]
	s.takeTurns()
	s.prepare()
	s.admitted, s.unserved, s.maxRows = 0, s.running, s.TokenBudget
	for _, q := range s.sequences {
		if q.state == running {
			s.unserved--
			s.advance(q)
		}
	}
	s.unserved = 0
	s.boundPrefill()
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

// advance adds the rows of a running sequence: one to decode, or a chunk if several positions are not computed.
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

// admit starts waiting sequences in order, while there are rows, places and free blocks. It preempts nothing,
// and stops at the first that does not fit, so that a large one is not overtaken for ever.
func (s *scheduler) admit() {
	s.reserved, s.lackedBlocks = 0, false
	for i, q := range s.sequences {
		if q.state != waiting || q.prefilling {
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
			s.lackedBlocks = s.lackedBlocks && q.job.running == 0
			return
		}
		if s.lackedBlocks = false; q.state == waiting {
			s.reserved++
		}
	}
}

// start admits the new sequences of one group, from sequences[i] on, as many as there are places for. It
// prefills what the cache lacks of their prompt; after the prompt's last token, each sequence draws its first.
// It reports false if none could start for want of blocks or places, so that those behind have to wait.
func (s *scheduler) start(i int) bool {
	g := s.sequences[i].group
	last := len(g.request.Prompt) - 1
	g.prefilled = min(g.prefilled, last) // draws need the output of the last row, so it is computed in any case
	if !s.prefill(g, last+1) {
		return false
	}
	if g.prefilled > last {
		for _, q := range s.startable(i) {
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

// canStart reports whether another sequence may start. It needs a free block: it will write to one soon, as will
// each of those that were admitted in this iteration.
func (s *scheduler) canStart() bool {
	if s.running >= s.MaxSequences || s.drawsLeft() == 0 {
		return false
	}
	s.lackedBlocks = s.running > 0 && !s.spare(s.admitted+1)
	return !s.lackedBlocks
}

// resume admits a sequence that was preempted. It shares the full blocks of its prompt, or more if the prefix cache has
// them, and recomputes the rest in chunks.
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
			return true // prefill continues in the next iteration
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

// fork starts a sequence on the first n blocks of its prefix, which it shares with its group.
func (s *scheduler) fork(q *sequence, n int) {
	s.blocks.retain(q.prefix[:n])
	s.begin(q, append(q.table[:0], q.prefix[:n]...))
}

// begin makes a sequence running, with a block table whose references it owns.
func (s *scheduler) begin(q *sequence, table []int32) {
	q.table, q.state = table, running
	q.group.running++
	q.job.running++
	s.running++
	s.admitted++
}
