package sampler

import "github.com/seed-7879b91d/grpo/kernels"

// allocate makes the next n positions of a running sequence writable, and preempts younger ones for their
// blocks if need be. It reports false if the sequence itself was preempted.
func (s *scheduler) allocate(q *sequence, n int) bool {
	missing := s.missing(q, n)
	for len(s.blocks.free) < missing {
		if s.reclaim(q.group) {
			continue
		}
		victim := s.youngest()
		if victim == q && s.dropDouble(q.group) {
			continue
		}
		s.preempt(victim)
		if victim == q {
			return false
		}
	}
	s.own(q, q.computed/s.Block, s.blocksFor(q.computed+n))
	return true
}

// missing is how many blocks a sequence needs for its next n positions.
func (s *scheduler) missing(q *sequence, n int) int {
	missing := s.blocksFor(q.computed+n) - len(q.table)
	for _, block := range q.table[min(q.computed/s.Block, len(q.table)):] {
		if s.blocks.shared(block) {
			missing++ // to be copied on write
		}
	}
	return missing
}

// own gives a sequence blocks [first, end) of its table for itself alone, from those that are free: new
// ones at the end, copies of those that it shares.
func (s *scheduler) own(q *sequence, first, end int) {
	for b := first; b < end; b++ {
		if b < len(q.table) && !s.blocks.shared(q.table[b]) {
			continue
		}
		block := s.blocks.take()
		if b == len(q.table) {
			q.table = append(q.table, block)
			continue
		}
		s.copyTo, s.copyFrom = append(s.copyTo, block), append(s.copyFrom, q.table[b])
		s.blocks.release(q.table[b : b+1])
		q.table[b] = block
	}
}

// slide gives up the blocks of a running sequence that none of its rows will read again: where every layer reads a window alone,
// those that end before the window of the next row, as many as attention does not look at together with others. Their places in the
// table stay. Once the prompt of a group is behind all of its sequences, its prefix is nobody's any more.
func (s *scheduler) slide(q *sequence) {
	if s.reach == 0 {
		return
	}
	past := max(q.computed+1-s.reach, 0) / s.Block / kernels.BlocksAtOnce * kernels.BlocksAtOnce
	if past <= q.spent {
		return
	}
	s.blocks.release(q.table[q.spent:past])
	q.spent = past
	if g := q.group; past >= len(g.prefix) && g.running == g.unfinished && !g.grown {
		s.dropPrefix(g)
	}
}

// youngest is the last sequence that runs and has no rows in this iteration yet. Sequences are served in
// order, so that is any one behind the sequence being served, or that one itself.
func (s *scheduler) youngest() *sequence {
	for i := len(s.sequences) - 1; ; i-- {
		if s.sequences[i].state == running {
			return s.sequences[i]
		}
	}
}

// preempt takes a sequence's blocks for others. It keeps its tokens, waits, and is recomputed.
func (s *scheduler) preempt(q *sequence) {
	s.remember(q)
	s.release(q)
	s.leave(q, waiting)
	s.Preempted++
}

// release takes a sequence's references to its blocks.
func (s *scheduler) release(q *sequence) {
	s.blocks.release(q.table[q.spent:])
	q.table, q.spent, q.computed = nil, 0, 0
}

// leave takes a sequence from those that run, or are parked.
func (s *scheduler) leave(q *sequence, to state) {
	switch q.state {
	case running:
		q.group.running--
		q.job.running--
		s.running--
	case parked:
		s.parked--
	}
	q.state = to
}
