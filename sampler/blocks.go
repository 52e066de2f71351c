package sampler

// blockPool counts the references to each block of the KV cache: one for each block table that has it, and one for the
// prefix cache.
type blockPool struct {
	refs      []int32
	free      []int32 // a stack of the free blocks
	cached    []bool  // whether the prefix cache has the block
	evictable int     // blocks that only the prefix cache refers to, and could evict
}

func newBlockPool(n int) *blockPool {
	p := &blockPool{refs: make([]int32, n), free: make([]int32, n), cached: make([]bool, n)}
	for i := range p.free {
		p.free[i] = int32(n - 1 - i)
	}
	return p
}

// take returns a free block; the caller has made sure that there is one.
func (p *blockPool) take() int32 {
	block := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.refs[block] = 1
	return block
}

// retain adds a reference to each block of a table.
func (p *blockPool) retain(table []int32) {
	for _, block := range table {
		if p.refs[block]++; p.cached[block] && p.refs[block] == 2 {
			p.evictable--
		}
	}
}

// release drops a reference to each block of a table; a block without references is free.
func (p *blockPool) release(table []int32) {
	for _, block := range table {
		switch p.refs[block]--; {
		case p.refs[block] == 0:
			p.free = append(p.free, block)
		case p.cached[block] && p.refs[block] == 1:
			p.evictable++
		}
	}
}

// keep adds the reference of the prefix cache to a block that is in some table.
func (p *blockPool) keep(block int32) {
	p.refs[block]++
	p.cached[block] = true
}

// drop drops the reference of the prefix cache.
func (p *blockPool) drop(block int32) {
	if p.refs[block] == 1 {
		p.evictable--
	}
	p.cached[block] = false
	p.release([]int32{block})
}

// unused is the number of blocks that are free, or that the prefix cache could evict at once.
func (p *blockPool) unused() int { return len(p.free) + p.evictable }

func (p *blockPool) shared(block int32) bool { return p.refs[block] > 1 }

// blocksFor is the number of blocks that n positions take.
func (p Plan) blocksFor(n int) int { return (n + p.Block - 1) / p.Block }
