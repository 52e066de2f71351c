package cpu

// #include "kernels.h"
import "C"

import (
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

// bundle puts beside each other's tiles those that read the same first blocks, as samples of one prompt do, so that these are read once.
// Threads still have two tasks each, where there are so many.
func (b *backend) bundle(tiles []C.grpo_run, h kernels.Attn) []C.grpo_bundle {
	bundles := unsafe.Slice((*C.grpo_bundle)(b.shared(slotIndex, len(tiles)*C.sizeof_grpo_bundle)), len(tiles))[:0]
	most := min(C.TILE_FORWARD, max(len(tiles)*h.KV/(2*b.threads()), 1))
	for i := 0; i < len(tiles); {
		next := bundleOf(tiles[i:], h, most)
		next.first = C.int64_t(i)
		bundles = append(bundles, next)
		i += int(next.count)
	}
	return bundles
}

// bundleOf is the bundle that begins with the first of some tiles: another joins it as long as more blocks are saved with it than without.
func bundleOf(tiles []C.grpo_run, h kernels.Attn, most int) C.grpo_bundle {
	rows, shared := queriesOf(&tiles[0], h), behind(&tiles[0], h)
	next := C.grpo_bundle{count: 1}
	for int(next.count) < min(most, len(tiles)) {
		t := &tiles[next.count]
		if rows += queriesOf(t, h); rows > C.TILE_FORWARD {
			break
		}
		common := sameBlocks(tiles[0].table, t.table, min(shared, behind(t, h)))
		if int(next.count)*common <= int(next.count-1)*shared {
			break
		}
		shared = common
		next.count++
		next.shared = C.int64_t(shared)
	}
	return next
}

// queriesOf is how many queries a key-value head has of all rows of the tile's run.
func queriesOf(t *C.grpo_run, h kernels.Attn) int { return int(t.length) * (h.Q / h.KV) }

// behind is how many whole blocks, from the first one on, all queries of a tile read, and stand behind.
func behind(t *C.grpo_run, h kernels.Attn) int {
	last := t.position + t.length - 1
	if queriesOf(t, h) > C.TILE_FORWARD || last >= window(h) {
		return 0
	}
	return int(t.position) / C.KEYS
}

// sameBlocks is how many of the first blocks of two sequences, so many at most, are the same.
func sameBlocks(a, b *C.int32_t, most int) int {
	x, y := unsafe.Slice(a, most), unsafe.Slice(b, most)
	for i := range x {
		if x[i] != y[i] {
			return i
		}
	}
	return most
}
