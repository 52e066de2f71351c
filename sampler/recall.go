package sampler

// What a Live does beyond Engine.Sample: a prefix cache across requests (tree), and bounds on the rows that prefill
// takes in an iteration. Both are off without a tree.

// recall starts the prefix of a group with blocks of the prefix cache. The prompt's last token is always computed, since
// draws need its output; with scores of the prompt all of its tokens are.
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

// recallSequence looks a sequence up in the prefix cache. It returns a block table, whose references the caller owns, if
// that has more than n blocks, else nil.
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

// resumeOn is resume on blocks of the prefix cache. It may evict the group's own prefix, which can be in other blocks.
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

// remember adds the full blocks of a sequence to the prefix cache, unless slide has released some. The sequence must have no rows in
// the iteration that is being built: their keys and values are not computed yet.
func (s *scheduler) remember(q *sequence) {
	if s.tree != nil && q.freed == 0 {
		s.tree.insert(q.request.Adapter, q.all()[:q.computed], q.table)
	}
}

// notePrefill notes that the iteration has rows of a group's prefix, whose blocks must stay until settle.
func (s *scheduler) notePrefill(g *group) {
	if s.tree != nil {
		g.prefilling = true
		s.prefilling = append(s.prefilling, g)
	}
}

// settle follows the iteration: the blocks of prefixes that it computed go into the prefix cache, unless it failed.
func (s *scheduler) settle(computed bool) {
	for _, g := range s.prefilling {
		g.prefilling = false
		if computed {
			s.tree.insert(g.request.Adapter, g.request.Prompt[:g.prefilled], g.prefix)
		}
	}
	clear(s.prefilling)
	s.prefilling = s.prefilling[:0]
}

// dropDouble releases the prefix of a group if it can: after resumeOn its sequences may use other blocks with the same content.
func (s *scheduler) dropDouble(g *group) bool {
	if s.tree == nil || g.prefilling || len(g.prefix) == 0 {
		return false
	}
	s.dropPrefix(g)
	return true
}

// chunk is the number of rows that a running sequence takes in the iteration: one to decode, more to recompute, but one
// row is left for each running sequence behind it.
func (s *scheduler) chunk(q *sequence) int {
	left := s.budget()
	n := min(q.length()-q.computed, left)
	if s.tree != nil {
		n = min(n, max(left-s.unserved, 1), s.pace.rows)
	}
	return n
}

// boundPrefill limits the rows of sequences that start if others decode in the iteration (pace), and notes how many there are.
func (s *scheduler) boundPrefill() {
	if s.decodeDraws = len(s.drawn); s.tree != nil && s.decodeDraws > 0 {
		s.maxRows = min(s.maxRows, len(s.rows.Tokens)+s.pace.allowed(s.decodeDraws))
	}
	s.startRows = s.budget()
}

// share is the number of rows that a group's prompt may take in the iteration: those that are left, less those that the
// prompts behind it need. It is at least half of what is left, and at least a quarter of the rows that all prompts have
// in the iteration, so that a short prompt is prefilled at once.
func (s *scheduler) share(g *group) int {
	left := s.budget()
	if s.tree == nil {
		return left
	}
	own := max(left-left/2, min(left, s.startRows/4))
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
