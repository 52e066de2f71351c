package sampler

import "github.com/seed-7879b91d/grpo/kernels"

// blocks counts who uses each block of the cache.
type blocks struct {
	refs []int32
	free []int32 // the block to be given out next is the last
}

func newBlocks(n int) *blocks {
	b := &blocks{refs: make([]int32, n), free: make([]int32, n)}
	for i := range b.free {
		b.free[i] = int32(n - 1 - i)
	}
	return b
}

// take gives out a free block; the caller knows that there is one.
func (b *blocks) take() int32 {
	block := b.free[len(b.free)-1]
	b.free = b.free[:len(b.free)-1]
	b.refs[block] = 1
	return block
}

// share adds a user to each block.
func (b *blocks) share(table []int32) {
	for _, block := range table {
		b.refs[block]++
	}
}

// drop takes a user from each block.
func (b *blocks) drop(table []int32) {
	for _, block := range table {
		if b.refs[block]--; b.refs[block] == 0 {
			b.free = append(b.free, block)
		}
	}
}

func (b *blocks) shared(block int32) bool { return b.refs[block] > 1 }

// blocksFor is how many blocks positions 0 to n−1 take.
func blocksFor(n int) int { return (n + kernels.CacheBlock - 1) / kernels.CacheBlock }
