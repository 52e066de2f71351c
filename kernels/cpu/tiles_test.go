package cpu

import (
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/tiles"
)

// Every variant computes the order of tiles to the bit. Where the first x86-64 has no fused multiply-adds, the products of
// bf16 are exact without, unless they are subnormal.
func TestTheSameTiles(t *testing.T) {
	var all []kernels.Backend
	for _, name := range Variants() {
		all = append(all, open(t, Options{Threads: 2, Variant: name, Order: kernels.Tiles}))
	}
	tiles.Run(t, all...)
	defer func(usual int) { streamedBytes = usual }(streamedBytes)
	streamedBytes = 0 // results go around the caches, however small
	tiles.Run(t, all...)
}

// withoutTileUnit is the widest set of kernels that computes tiles by multiply-adds.
func withoutTileUnit() string {
	all := Variants()
	if hasTileUnit(variants()[0]) {
		all = all[1:]
	}
	return all[0]
}
