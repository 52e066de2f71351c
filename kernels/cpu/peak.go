package cpu

// #include "kernels.h"
import "C"

import (
	"sync"
	"time"
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

// The sizes of probes. One run of probeRounds takes some 0.1 ms.
const (
	probeRounds   = 10_000
	probeTries    = 5
	probeTurns    = 4
	readBytes     = 512 << 20 // larger than any cache
	readTaskBytes = 1 << 20
)

// fmaFlops is the number of flops of one task of peak_fma.
func fmaFlops(v *C.grpo_variant, rounds int) float64 {
	chains := 12
	if v.lanes == 16 {
		chains = 24
	}
	return 2 * float64(rounds) * float64(chains) * float64(v.lanes)
}

// peakOf is the best rate of fused multiply-adds of one thread, in flops per second.
func peakOf(v *C.grpo_variant) float64 { return peakRate(v, v.peak_fma) }

// clearly is the factor by which an alternative must be faster to be chosen.
const clearly = 1.1

// alternately is the best rate of each of two probes, which alternate so that other load on the machine slows both.
func alternately(one, other func() float64) (a, b float64) {
	for range probeTurns {
		a, b = max(a, one()), max(b, other())
	}
	return a, b
}

// pairsPay is whether the processor multiplies bf16 numbers faster in pairs than as single floats. On processors that can
// do both, one way takes about twice the time of the other.
var pairsPay = sync.OnceValue(func() bool {
	v := C.grpo_avx512()
	if v == nil || C.grpo_has_pairs() == 0 {
		return false
	}
	floats, pairs := alternately(func() float64 { return peakOf(v) }, func() float64 { return 2 * peakRate(v, v.peak_pairs) })
	return pairs > clearly*floats
})

// peakRate is the rate of one of the two probes; a pair counts as one product.
func peakRate(v *C.grpo_variant, probe *C.grpo_kernel) float64 {
	var sink region
	defer sink.free()
	var a region
	defer a.free()
	p := (*C.grpo_peak_fma)(a.grow(C.sizeof_grpo_peak_fma))
	p.rounds, p.sink = probeRounds, (*C.float)(sink.grow(64))
	best := time.Hour
	for range probeTries {
		start := time.Now()
		C.grpo_call(probe, unsafe.Pointer(p), nil, 0, 1)
		best = min(best, time.Since(start))
	}
	return fmaFlops(v, probeRounds) / best.Seconds()
}

var _ kernels.Prober = (*backend)(nil)

// Peak measures the peak rates of the backend's threads and kernels.
func (b *backend) Peak() kernels.Peak {
	p := kernels.Peak{Flops: b.measureFMA(b.ops.peak_fma), Bytes: b.readRate()}
	p.Products, p.Mixed = p.Flops, p.Flops
	switch {
	case b.order == kernels.Tiles:
		if hasTileUnit(b.ops) {
			p.Products = b.measureTiles()
		}
		p.Mixed = p.Products / C.PIECES
	case b.pairs:
		p.Products = 2 * b.measureFMA(b.ops.peak_pairs)
	}
	return p
}

// measureTiles is the rate of tile products, accumulated in four tiles.
func (b *backend) measureTiles() float64 {
	const rounds = 20_000
	tasks := 16 * b.threads()
	a := args[C.grpo_peak_tiles](b)
	a.rounds, a.sink = rounds, (*C.float)(b.shared(slotPartial, C.TILE_BYTES*tasks))
	const flops = 4 * 2 * C.TILE * C.TILE * C.TILE_INPUTS // of one round
	return float64(tasks) * rounds * flops / b.bestOf(b.ops.peak_tiles, tasks).Seconds()
}

// measureFMA is the rate of multiply-adds; a pair counts as one product.
func (b *backend) measureFMA(probe *C.grpo_kernel) float64 {
	const rounds = 100_000
	tasks := 16 * b.threads()
	a := args[C.grpo_peak_fma](b)
	a.rounds, a.sink = rounds, (*C.float)(b.shared(slotPartial, 4*tasks))
	return float64(tasks) * fmaFlops(b.ops, rounds) / b.bestOf(probe, tasks).Seconds()
}

// readRates caches the read rates that this process has measured, by variant and threads: writing to the pages first takes
// longer than all other probes.
var readRates sync.Map

func (b *backend) readRate() float64 {
	key := [2]any{b.ops, b.threads()}
	if rate, ok := readRates.Load(key); ok {
		return rate.(float64)
	}
	rate := b.measureRead()
	readRates.Store(key, rate)
	return rate
}

// measureRead is the rate of reading from memory, beyond all caches.
func (b *backend) measureRead() float64 {
	var data region
	defer data.free()
	p := data.grow(readBytes)
	for i, s := 0, unsafe.Slice((*byte)(p), readBytes); i < len(s); i += 4096 {
		s[i] = 1 // a page that was never written to has no memory of its own
	}
	tasks := readBytes / readTaskBytes
	a := args[C.grpo_peak_read](b)
	a.data, a.bytes = (*C.char)(p), readTaskBytes
	a.sink = (*C.float)(b.shared(slotPartial, 4*tasks))
	return readBytes / b.bestOf(b.ops.peak_read, tasks).Seconds()
}

func (b *backend) bestOf(kernel *C.grpo_kernel, tasks int) time.Duration {
	best := time.Hour
	for range probeTries {
		start := time.Now()
		b.run(kernel, tasks, 1)
		best = min(best, time.Since(start))
	}
	return best
}
