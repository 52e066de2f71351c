package sampler

import "github.com/seed-7879b91d/grpo/kernels"

// allocate makes the next n positions of a running sequence writable. It reclaims blocks, and then preempts
// younger sequences, if necessary. It reports false if the sequence itself had to be preempted.
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

// missing is the number of free blocks that a sequence needs for its next n positions.
func (s *scheduler) missing(q *sequence, n int) int {
	missing := s.blocksFor(q.computed+n) - len(q.table)
	for _, block := range q.table[min(q.computed/s.Block, len(q.table)):] {
		if s.blocks.shared(block) {
			missing++ // for its copy
		}
	}
	return missing
}

// own makes blocks [first, end) of a sequence's table writable: it appends free blocks, and replaces shared
// blocks by copies (copy-on-write).
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

// slide releases the blocks of a running sequence that none of its rows will read again: if every layer has a sliding window, those
// before the window of the next row, in multiples of the blocks that attention reads together. Their entries in the table stay. Once the
// windows of all sequences of a group are past its prompt, the prefix is released, too.
func (s *scheduler) slide(q *sequence) {
	if s.reach == 0 {
		return
	}
	past := max(q.computed+1-s.reach, 0) / s.Block / kernels.BlocksAtOnce * kernels.BlocksAtOnce
	if past <= q.freed {
		return
	}
	s.blocks.release(q.table[q.freed:past])
	q.freed = past
	if g := q.group; past >= len(g.prefix) && g.running == g.unfinished && !g.prefilling {
		s.dropPrefix(g)
	}
}

// youngest is the last running sequence. Sequences are served in order, so it is behind the one being served and has
// no rows in this iteration yet, or it is that one itself.
func (s *scheduler) youngest() *sequence {
	for i := len(s.sequences) - 1; ; i-- {
		if s.sequences[i].state == running {
			return s.sequences[i]
		}
	}
}

// preempt takes a running sequence's blocks. It keeps its tokens, and is recomputed when it is admitted again.
func (s *scheduler) preempt(q *sequence) {
	s.remember(q)
	s.release(q)
	s.leave(q, waiting)
	s.Preempted++
}

// release releases all blocks of a sequence.
func (s *scheduler) release(q *sequence) {
	s.blocks.release(q.table[q.freed:])
	q.table, q.freed, q.computed = nil, 0, 0
}

// leave moves a sequence to another state, and keeps the counts of running and parked ones.
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
