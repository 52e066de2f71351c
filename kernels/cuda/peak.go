//go:build gpu

package cuda

import (
	"time"

	"github.com/seed-7879b91d/grpo/kernels"
)

// The number of independent products, chains and loads per thread or warp, as in peak.cu.
const (
	peakProducts = 8
	peakChains   = 16
	peakLoads    = 8
)

// Peak measures the peak rates of the card. Products use mma.sync, which does not reach the limit of newer cards.
func (b *Backend) Peak() kernels.Peak {
	grid := 8 * b.device.Card().Processors
	out, err := b.Alloc(kernels.F32, grid*threads)
	if err != nil {
		b.note(err)
		return kernels.Peak{}
	}
	defer b.Release(out)
	const mma = 2 * 16 * 8 * 16
	return kernels.Peak{
		Products: b.rate(1<<22, func(rounds int) float64 {
			b.launch("peak_products", dims{X: grid}, at(out), i64(rounds))
			return mma * peakProducts * float64(rounds*grid*threads/32)
		}),
		Flops: b.rate(1<<22, func(rounds int) float64 {
			b.launch("peak_fma", dims{X: grid}, at(out), f32(0.5), i64(rounds))
			return 2 * peakChains * float64(rounds*grid*threads)
		}),
		Bytes: b.bandwidth(out, grid),
	}
}

// bandwidth measures the bytes read per second, from more memory than any cache holds, so that caches do not raise it.
func (b *Backend) bandwidth(out kernels.Buffer, grid int) float64 {
	room, _ := b.Free()
	round := 16 * peakLoads * grid * threads
	most := max(int(min(1<<30, room.Bytes/4))/round, 1)
	memory, err := b.memory.take(b, int64(most*round))
	if err != nil {
		b.note(err)
		return 0
	}
	defer func() { b.note(b.memory.free(memory)) }()
	filled := 0
	return b.rate(most, func(rounds int) float64 {
		if rounds > filled { // the first launch of a size, which is not timed
			b.note(b.stream.Fill(memory.At, 0, int64(rounds*round)))
			filled = rounds
		}
		b.launch("peak_read", dims{X: grid}, at(out), address(memory.At), i64(rounds*round/16), i64(grid*threads))
		return float64(rounds * round)
	})
}

// Each measurement times peakLaunches launches, each long enough that its overhead is negligible, and takes the best of peakTries.
const (
	peakLaunches = 10
	peakTime     = 10 * time.Millisecond
	peakTries    = 5
)

// rate measures the amount of work per second. It raises the number of rounds per launch, up to most, until launches take long enough;
// launch returns the amount of work that it has queued.
func (b *Backend) rate(most int, launch func(rounds int) float64) float64 {
	timed := func(rounds int) (amount float64, took time.Duration) {
		launch(rounds)
		b.note(b.stream.Sync())
		began := time.Now()
		for range peakLaunches {
			amount += launch(rounds)
		}
		b.note(b.stream.Sync())
		return amount, time.Since(began)
	}
	rounds := 1
	for ; rounds < most && b.failed == nil; rounds = min(4*rounds, most) {
		if _, took := timed(rounds); took >= peakTime {
			break
		}
	}
	best := 0.0
	for range peakTries {
		amount, took := timed(rounds)
		best = max(best, amount/took.Seconds())
	}
	if b.failed != nil { // Sync returns the error
		return 0
	}
	return best
}
