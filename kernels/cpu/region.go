package cpu

// #include "kernels.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// A region is C memory that grows to the largest demand and is given back with the backend.
type region struct {
	p     unsafe.Pointer
	bytes int
}

func (r *region) grow(bytes int) unsafe.Pointer {
	if bytes > r.bytes {
		r.free()
		if r.p = C.grpo_alloc(C.size_t(bytes)); r.p == nil {
			panic(fmt.Sprintf("cpu: no memory for %d bytes of scratch space", bytes))
		}
		r.bytes = bytes
	}
	return r.p
}

func (r *region) free() {
	if r.p != nil {
		C.grpo_free(r.p, C.size_t(r.bytes))
		*r = region{}
	}
}

// scratch gives each worker at least that many bytes of its own, which kernels get as their second
// argument. What was in them is lost.
func (b *backend) scratch(bytes int) {
	for i := range b.scratches {
		C.grpo_pool_scratch(b.pool.c, C.int(i), b.scratches[i].grow(ownBytes(bytes)))
	}
}

// ownBytes is what a worker that asks for so many bytes is given. If they are many small pages, it is a huge one: what tiles
// stream from small pages takes 7 % longer.
func ownBytes(asked int) int {
	const hugePage = 2 << 20
	if asked >= hugePage/4 {
		return max(asked, hugePage)
	}
	return asked
}

// The shared regions, by what an operation keeps in them from one run to the next.
const (
	slotPacked  = iota // the left-hand side of a product
	slotIndex          // which rows the head is asked about
	slotRows           // numbers of rows: those the head is asked about
	slotLogits         // logits of a vocabulary chunk
	slotWeights        // and the left-hand side made of them
	slotMean           // the mean of the head's rows under them
	slotBlocks         // keys and values of attention
	slotPartial        // partial results to be combined in order
	slotAdded          // products that are added to another one
	slotLow            // and the left-hand side of each
	sharedSlots = slotLow + lowWindows
)

// lowWindows is how many windows of one linear an adapter may have and still be added with it: those of queries, keys and values.
const lowWindows = 3

// shared gives the region at least that many bytes. What was in it is lost when it grows.
func (b *backend) shared(slot, bytes int) unsafe.Pointer { return b.shares[slot].grow(bytes) }
