//go:build linux && amd64

// Package tileunit emulates a processor's tile unit (AMX) in tests: when a processor traps the unit's instructions, it
// executes them as specified, so that the kernels that use them run everywhere, slowly.
package tileunit

// #cgo CFLAGS: -O3
// #include "unit.h"
import "C"

import (
	"errors"
	"unsafe"
)

// Use makes kernels/cpu find a tile unit, unless it has already looked for one. The error says why the emulation cannot be used.
func Use() error {
	if C.grpo_use_stand_in() == 0 {
		return errors.New("the processor has a tile unit of its own, or lacks fused multiply-adds or, with AVX-512, its bf16")
	}
	return nil
}

// Executed returns how many instructions were emulated, and how many threads have configured tiles now.
func Executed() (instructions, holders int) {
	return int(C.grpo_stand_in_executed()), int(C.grpo_stand_in_holders())
}

// Try adds a product of two tiles to sums, using the instructions. left is [rows][pairs] and right [pairs][columns] of pairs of
// bf16. The strides are in numbers of sums, and in pairs.
func Try(rows, pairs, columns int, sums []float32, sumsRow int, left []uint16, leftRow int, right []uint16, rightRow int) {
	C.grpo_try_tiles(C.int(rows), C.int(pairs), C.int(columns), (*C.float)(unsafe.SliceData(sums)), C.int64_t(4*sumsRow),
		unsafe.Pointer(unsafe.SliceData(left)), C.int64_t(4*leftRow),
		unsafe.Pointer(unsafe.SliceData(right)), C.int64_t(4*rightRow))
}

// Signals is how often the processor trapped an instruction.
func Signals() int { return int(C.grpo_stand_in_signals()) }

// Operations is the number of operations of TryBetween.
const Operations = 28

// TryBetween runs instructions that compilers put between those of the tile unit, with such instructions between them, or without. It
// returns the numbers in memory, and for every operation the flags after it and a register.
func TryBetween(unit bool, a, b int64, memory [2]int64) (after [2 + 2*Operations]int64) {
	copy(after[:], memory[:])
	var with C.int
	if unit {
		with = 1
	}
	C.grpo_try_between(with, C.int64_t(a), C.int64_t(b), (*C.int64_t)(unsafe.Pointer(&after)))
	return after
}

// Mistake uses the unit wrongly, in the way of that number in try.c, which ends the process.
func Mistake(which int) { C.grpo_try_mistake(C.int(which)) }
