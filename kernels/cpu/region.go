package cpu

// #include "kernels.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// region is C memory that grows to the largest demand and is freed with the backend.
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

// scratch gives each worker at least that many bytes of its own, the second argument of kernels. Their
// contents are lost.
func (b *backend) scratch(bytes int) {
	for i := range b.scratches {
		C.grpo_pool_scratch(b.pool.c, C.int(i), b.scratches[i].grow(workerBytes(bytes)))
	}
}

// workerBytes is the size of the scratch space of a worker that asks for a number of bytes. A large one is extended to a huge page:
// streaming tiles from small pages takes 7 % longer.
func workerBytes(asked int) int {
	const hugePage = 2 << 20
	if asked >= hugePage/4 {
		return max(asked, hugePage)
	}
	return asked
}

// The shared regions, by what they hold from one run of an operation to the next.
const (
	slotPacked  = iota // the packed left-hand side of a product
	slotIndex          // lists of rows: those with a target, for the head
	slotRows           // data of rows: for the head the hidden states of those with a target
	slotLogits         // logits of vocabulary chunks
	slotWeights        // weights made of these logits, as a packed left-hand side
	slotMean           // the mean of the head's rows under these weights
	slotBlocks         // keys and values of attention
	slotPartial        // partial results to be combined in order
	slotAdded          // descriptions of products that are added to another one
	slotLow            // the packed left-hand side of each of these products
	sharedSlots = slotLow + lowWindows
)

// lowWindows is the most windows of an adapter that can be computed together with its linear: those of queries, keys and values.
const lowWindows = 3

// shared returns a shared region of at least that many bytes. Its contents are lost when it grows.
func (b *backend) shared(slot, bytes int) unsafe.Pointer { return b.shares[slot].grow(bytes) }
