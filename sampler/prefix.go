package sampler

// prefill adds rows of a group's prompt up to position end, as far as the budget goes, to the run of
// rows that is being written. It reports false if the blocks for them are not free.
func (s *scheduler) prefill(g *group, end int) bool {
	s.recall(g)
	n := max(0, min(end-g.prefilled, s.share(g)))
	if g.unscored > 0 {
		n = min(n, s.drawsLeft()) // each row has a draw
	}
	missing := s.blocksFor(g.prefilled+n) - len(g.prefix)
	if !s.makeRoom(missing, g) {
		return false
	}
	for range missing {
		g.prefix = append(g.prefix, s.blocks.take())
	}
	s.count(&g.reached, g.prefilled, n)
	for range n {
		s.addRow(g.request.Prompt[g.prefilled], g.prefilled)
		if g.prefilled++; g.unscored > 0 && g.prefilled < len(g.request.Prompt) {
			s.addScore(g, g.prefilled)
		}
	}
	if n > 0 {
		s.grow(g)
	}
	return true
}

// fullPrefix is how many blocks the prompt of a group fills: those that nobody writes to any more.
func (s *scheduler) fullPrefix(g *group) int { return len(g.request.Prompt) / s.Block }

// makeRoom reports whether n blocks are free, after evicting idle prefixes other than keep's if need be.
func (s *scheduler) makeRoom(n int, keep *group) bool {
	for len(s.blocks.free) < n {
		if !s.reclaim(keep) {
			s.short = true
			return false
		}
	}
	return true
}

// reclaim takes blocks from what no running sequence stands on, if there is such: from the tree, then from a prefix
// other than keep's, then from a sequence that waits.
func (s *scheduler) reclaim(keep *group) bool {
	return s.tree != nil && s.tree.evict() || s.evictIdlePrefix(keep) || s.dropIdle()
}

// evictIdlePrefix drops the last prefix that no running sequence stands on, other than keep's, and that has no rows in
// this iteration.
func (s *scheduler) evictIdlePrefix(keep *group) bool {
	for i := len(s.groups) - 1; i >= 0; i-- {
		g := s.groups[i]
		if g != keep && g.running == 0 && !g.grown && len(g.prefix) > 0 {
			s.dropPrefix(g)
			return true
		}
	}
	return false
}

// dropPrefix takes the group's own references to its prefix; sequences keep theirs.
func (s *scheduler) dropPrefix(g *group) {
	s.blocks.release(g.prefix)
	g.prefix, g.prefilled = nil, 0
}
