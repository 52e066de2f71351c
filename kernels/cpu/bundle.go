package cpu

// #include "kernels.h"
import "C"

import (
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

// bundle joins tiles that read the same first blocks of the cache, as samples of one prompt do, so that a task reads these once for all.
// Bundles are so small that there are two tasks per thread, if there are enough tiles.
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

// bundleOf is the bundle that begins with the first of some tiles. The next tile joins it as long as that saves more reads of blocks.
func bundleOf(tiles []C.grpo_run, h kernels.Attn, most int) C.grpo_bundle {
	rows, shared := queriesOf(&tiles[0], h), fullBlocksBefore(&tiles[0], h)
	next := C.grpo_bundle{count: 1}
	for int(next.count) < min(most, len(tiles)) {
		t := &tiles[next.count]
		if rows += queriesOf(t, h); rows > C.TILE_FORWARD {
			break
		}
		common := commonBlocks(tiles[0].table, t.table, min(shared, fullBlocksBefore(t, h)))
		if int(next.count)*common <= int(next.count-1)*shared {
			break
		}
		shared = common
		next.count++
		next.shared = C.int64_t(shared)
	}
	return next
}

// queriesOf is the number of queries per key-value head in the run of a tile.
func queriesOf(t *C.grpo_run, h kernels.Attn) int { return int(t.length) * (h.Q / h.KV) }

// fullBlocksBefore is how many full blocks at the beginning of the sequence all queries of a tile read, since they come after them.
func fullBlocksBefore(t *C.grpo_run, h kernels.Attn) int {
	last := t.position + t.length - 1
	if queriesOf(t, h) > C.TILE_FORWARD || last >= window(h) {
		return 0
	}
	return int(t.position) / C.KEYS
}

// commonBlocks is the length of the common prefix of two block tables, at most the given number.
func commonBlocks(a, b *C.int32_t, most int) int {
	x, y := unsafe.Slice(a, most), unsafe.Slice(b, most)
	for i := range x {
		if x[i] != y[i] {
			return i
		}
	}
	return most
}
