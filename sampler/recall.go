package sampler

// What a Live does besides what a call of Sample does: it remembers blocks across requests, and lets no prompt take a
// whole iteration while others wait. Both are off where there is no tree.

// recall begins the prefix of a group with what the tree has of its prompt. Its last token is computed in any case, since
// draws follow it, and so are those that are to be scored.
func (s *scheduler) recall(g *group) {
	if s.tree == nil || len(g.prefix) > 0 {
		return
	}
	if g.unscored > 0 {
		g.begun = true
		return
	}
	g.prefix = s.tree.find(g.request.Adapter, g.request.Prompt, (len(g.request.Prompt)-1)/s.Block)
	g.prefilled = len(g.prefix) * s.Block
	if !g.begun {
		g.begun, g.cached = true, g.prefilled
	}
}

// recallSequence gives a table of what the tree has of a sequence, with references, where that is more than n blocks.
func (s *scheduler) recallSequence(q *sequence, n int) []int32 {
	if s.tree == nil {
		return nil
	}
	table := s.tree.find(q.request.Adapter, q.all(), (q.length()-1)/s.Block)
	if len(table) <= n {
		s.blocks.release(table)
		return nil
	}
	return table
}

// resumeOn is resume on a table of what is remembered. The prefix of the group, which may be of other blocks, can give
// way to it.
func (s *scheduler) resumeOn(q *sequence, table []int32) bool {
	if !s.makeRoom(s.blocksFor(q.length())-len(table), nil) {
		s.blocks.release(table)
		return false
	}
	s.begin(q, table)
	q.computed = len(table) * s.Block
	s.advance(q)
	return true
}

// remember gives the tree the full blocks of a running sequence that still has all of them, between iterations, or when it has no
// rows in this one.
func (s *scheduler) remember(q *sequence) {
	if s.tree != nil && q.spent == 0 {
		s.tree.insert(q.request.Adapter, q.all()[:q.computed], q.table)
	}
}

// grow notes that rows of a group's prefix are in this iteration.
func (s *scheduler) grow(g *group) {
	if s.tree != nil {
		g.grown = true
		s.grown = append(s.grown, g)
	}
}

// settle ends what grow notes: the rows are computed now, and the tree has their blocks, unless the iteration failed.
func (s *scheduler) settle(computed bool) {
	for _, g := range s.grown {
		g.grown = false
		if computed {
			s.tree.insert(g.request.Adapter, g.request.Prompt[:g.prefilled], g.prefix)
		}
	}
	clear(s.grown)
	s.grown = s.grown[:0]
}

// dropDouble drops the prefix of a group whose last running sequence may run on other blocks that hold the same.
func (s *scheduler) dropDouble(g *group) bool {
	if s.tree == nil || g.grown || len(g.prefix) == 0 {
		return false
	}
	s.dropPrefix(g)
	return true
}

// chunk is how many rows of the iteration a running sequence takes: all that it lacks, which is one but where it is
// recomputed. That leaves those behind theirs.
func (s *scheduler) chunk(q *sequence) int {
	left := s.budget()
	n := min(q.length()-q.computed, left)
	if s.tree != nil {
		n = min(n, max(left-s.behind, 1), s.pace.rows)
	}
	return n
}

// bound leaves those that begin fewer rows than there are, where others wait for a token, and notes how many.
func (s *scheduler) bound() {
	if s.drawing = len(s.drawn); s.tree != nil && s.drawing > 0 {
		s.most = min(s.most, len(s.rows.Tokens)+s.pace.allowed(s.drawing))
	}
	s.room = s.budget()
}

// share is how many rows of the iteration a group's prompt may take: all that are left, less those that the groups behind
// it have prompts for. Half of what is left is its own in any case, and so is a quarter of what there was for prompts, so
// that a short one goes through at once.
func (s *scheduler) share(g *group) int {
	left := s.budget()
	if s.tree == nil {
		return left
	}
	own := max(left-left/2, min(left, s.room/4))
	others, behind := 0, false
	for _, h := range s.groups {
		if behind && h.running == 0 {
			others += len(h.request.Prompt) - h.prefilled
		}
		if left-others <= own {
			return own
		}
		behind = behind || h == g
	}
	return left - others
}
