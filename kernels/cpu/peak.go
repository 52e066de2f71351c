package cpu

// #include "kernels.h"
import "C"

import (
	"time"
	"unsafe"
)

// How much a probe does. One run of the first is some 0.1 ms.
const (
	probeRounds   = 10_000
	probeTries    = 5
	readBytes     = 512 << 20 // beyond any cache
	readTaskBytes = 1 << 20
)

// fmaFlops is the work of one task of peak_fma.
func fmaFlops(v *C.grpo_variant, rounds int) float64 {
	chains := 12
	if v.lanes == 16 {
		chains = 24
	}
	return 2 * float64(rounds) * float64(chains) * float64(v.lanes)
}

// peakOf is the best rate of fused multiply-adds of one thread, in flops per second.
func peakOf(v *C.grpo_variant) float64 {
	var sink region
	defer sink.free()
	var a region
	defer a.free()
	p := (*C.grpo_peak_fma)(a.grow(C.sizeof_grpo_peak_fma))
	p.rounds, p.sink = probeRounds, (*C.float)(sink.grow(64))
	best := time.Hour
	for range probeTries {
		start := time.Now()
		C.grpo_call(v.peak_fma, unsafe.Pointer(p), nil, 0, 1)
		best = min(best, time.Since(start))
	}
	return fmaFlops(v, probeRounds) / best.Seconds()
}

// MeasurePeak is what this many threads reach at best in a few tenths of a second: fused multiply-adds
// of float32 (in flops per second) and reading of memory (in bytes per second).
func MeasurePeak(threads int) (flops, bytesPerSecond float64, err error) {
	b, err := New(Options{Threads: threads})
	if err != nil {
		return 0, 0, err
	}
	defer b.Close()
	return b.measureFMA(), b.measureRead(), nil
}

func (b *Backend) measureFMA() float64 {
	const rounds = 100_000
	tasks := 16 * b.Threads()
	a := args[C.grpo_peak_fma](b)
	a.rounds, a.sink = rounds, (*C.float)(b.shared(slotPartial, 4*tasks))
	return float64(tasks) * fmaFlops(b.ops, rounds) / b.bestOf(b.ops.peak_fma, tasks).Seconds()
}

func (b *Backend) measureRead() float64 {
	var data region
	defer data.free()
	p := data.grow(readBytes)
	for i, s := 0, unsafe.Slice((*byte)(p), readBytes); i < len(s); i += 4096 {
		s[i] = 1 // a page nobody wrote to is not read from memory
	}
	tasks := readBytes / readTaskBytes
	a := args[C.grpo_peak_read](b)
	a.data, a.bytes = (*C.char)(p), readTaskBytes
	a.sink = (*C.float)(b.shared(slotPartial, 4*tasks))
	return readBytes / b.bestOf(b.ops.peak_read, tasks).Seconds()
}

func (b *Backend) bestOf(kernel *C.grpo_kernel, tasks int) time.Duration {
	best := time.Hour
	for range probeTries {
		start := time.Now()
		b.run(kernel, tasks, 1)
		best = min(best, time.Since(start))
	}
	return best
}
