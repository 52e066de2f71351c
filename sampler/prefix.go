package sampler

// prefill adds rows of a group's prompt, up to position end or the group's share of the budget, to the
// current run of rows. It reports false if there are no blocks for them.
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
		s.notePrefill(g)
	}
	return true
}

// fullPrefix is the number of blocks that the prompt of a group fills: these are never written to again.
func (s *scheduler) fullPrefix(g *group) int { return len(g.request.Prompt) / s.Block }

// makeRoom makes n blocks free by reclaiming, but not from the prefix of keep, and reports whether it could.
func (s *scheduler) makeRoom(n int, keep *group) bool {
	for len(s.blocks.free) < n {
		if !s.reclaim(keep) {
			s.lackedBlocks = true
			return false
		}
	}
	return true
}

// reclaim frees blocks that no running sequence uses, if there are any: of the prefix cache, else of an idle group's
// prefix other than keep's, else of a parked or waiting sequence.
func (s *scheduler) reclaim(keep *group) bool {
	return s.tree != nil && s.tree.evict() || s.evictIdlePrefix(keep) || s.dropIdle()
}

// evictIdlePrefix drops the last prefix, other than keep's, of a group without running sequences and without rows in this
// iteration.
func (s *scheduler) evictIdlePrefix(keep *group) bool {
	for i := len(s.groups) - 1; i >= 0; i-- {
		g := s.groups[i]
		if g != keep && g.running == 0 && !g.prefilling && len(g.prefix) > 0 {
			s.dropPrefix(g)
			return true
		}
	}
	return false
}

// dropPrefix releases the group's own references to its prefix; its sequences keep theirs.
func (s *scheduler) dropPrefix(g *group) {
	s.blocks.release(g.prefix)
	g.prefix, g.prefilled = nil, 0
}
