package sampler

// blockPool has the reference count of each block of the cache: how many block tables it stands in, and one more where a
// tree keeps it.
type blockPool struct {
	refs []int32
	free []int32 // the block to be given out next is the last
	kept []bool  // blocks that a tree refers to
	idle int     // those of them that nobody else refers to
}

func newBlockPool(n int) *blockPool {
	p := &blockPool{refs: make([]int32, n), free: make([]int32, n), kept: make([]bool, n)}
	for i := range p.free {
		p.free[i] = int32(n - 1 - i)
	}
	return p
}

// take gives out a free block; the caller knows that there is one.
func (p *blockPool) take() int32 {
	block := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.refs[block] = 1
	return block
}

// retain counts another reference to each block of a table.
func (p *blockPool) retain(table []int32) {
	for _, block := range table {
		if p.refs[block]++; p.kept[block] && p.refs[block] == 2 {
			p.idle--
		}
	}
}

// release takes a reference from each block of a table; a block without any is free.
func (p *blockPool) release(table []int32) {
	for _, block := range table {
		switch p.refs[block]--; {
		case p.refs[block] == 0:
			p.free = append(p.free, block)
		case p.kept[block] && p.refs[block] == 1:
			p.idle++
		}
	}
}

// keep counts the reference of a tree to a block that is in some table.
func (p *blockPool) keep(block int32) {
	p.refs[block]++
	p.kept[block] = true
}

// drop takes a tree's reference.
func (p *blockPool) drop(block int32) {
	if p.refs[block] == 1 {
		p.idle--
	}
	p.kept[block] = false
	p.release([]int32{block})
}

// unused is how many blocks are free, or could be at once.
func (p *blockPool) unused() int { return len(p.free) + p.idle }

func (p *blockPool) shared(block int32) bool { return p.refs[block] > 1 }

// blocksFor is how many blocks positions 0 to n−1 take.
func (p Plan) blocksFor(n int) int { return (n + p.Block - 1) / p.Block }
