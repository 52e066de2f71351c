//go:build linux && amd64

// Package tileunit stands in for the tile unit of a processor (AMX) in tests: where a processor traps the unit's
// instructions, they are executed as the manual says, so that the kernels made of them run everywhere, slowly.
package tileunit

// #cgo CFLAGS: -O3
// #include "unit.h"
import "C"

import (
	"errors"
	"unsafe"
)

// Use makes kernels/cpu find a tile unit, if it was not asked for one before. It says why it can't.
func Use() error {
	if C.grpo_use_stand_in() == 0 {
		return errors.New("the processor has a tile unit of its own, or lacks fused multiply-adds or, with AVX-512, its bf16")
	}
	return nil
}

// Executed is how many instructions were executed, and how many threads have tiles now.
func Executed() (instructions, holders int) {
	return int(C.grpo_stand_in_executed()), int(C.grpo_stand_in_holders())
}

// Try adds one product of tiles to sums by the instructions. left has rows of pairs, right has pairs of two inputs for so many
// columns, both in bf16; rows lie so many numbers, or pairs, apart.
func Try(rows, pairs, columns int, sums []float32, sumsRow int, left []uint16, leftRow int, right []uint16, rightRow int) {
	C.grpo_try_tiles(C.int(rows), C.int(pairs), C.int(columns), (*C.float)(unsafe.SliceData(sums)), C.int64_t(4*sumsRow),
		unsafe.Pointer(unsafe.SliceData(left)), C.int64_t(4*leftRow),
		unsafe.Pointer(unsafe.SliceData(right)), C.int64_t(4*rightRow))
}

// Signals is how often a processor trapped an instruction.
func Signals() int { return int(C.grpo_stand_in_signals()) }

// Operations is how many TryBetween tries.
const Operations = 22

// TryBetween does what compilers put between the unit's instructions, with such instructions between, or without. It gives the
// numbers in memory, and for every operation the conditions after it and a register.
func TryBetween(unit bool, a, b int64, memory [2]int64) (after [2 + 2*Operations]int64) {
	copy(after[:], memory[:])
	var with C.int
	if unit {
		with = 1
	}
	C.grpo_try_between(with, C.int64_t(a), C.int64_t(b), (*C.int64_t)(unsafe.Pointer(&after)))
	return after
}

// Mistake does the one with that number in try.c. The process ends by it.
func Mistake(which int) { C.grpo_try_mistake(C.int(which)) }
