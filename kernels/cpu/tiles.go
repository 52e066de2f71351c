package cpu

// #include "kernels.h"
import "C"

// TileUnit is what this machine computes the order of tiles with.
type TileUnit struct {
	Native bool   // by its tile instructions (AMX)
	Reason string // why not: by fused multiply-adds, to the same bits, at less than their usual speed
}

// Tiles asks the processor for its tile instructions, and the kernel for leave to use them.
func Tiles() TileUnit {
	switch C.grpo_tile_unit() {
	case C.TILES_GRANTED:
		return TileUnit{Native: true}
	case C.TILES_REFUSED:
		return TileUnit{Reason: "the processor has AMX, and the kernel refuses it to this process (arch_prctl)"}
	case C.TILES_NOT_BUILT:
		return TileUnit{Reason: "this program was built without the kernels for AMX, which are for linux/amd64"}
	}
	return TileUnit{Reason: "the processor has no AMX"}
}
