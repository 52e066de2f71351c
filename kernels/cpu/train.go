package cpu

// #cgo LDFLAGS: -lm
// #include "kernels.h"
import "C"

import (
	"math"
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Loss is plain Go in double precision: a batch has few rows.
func (b *backend) Loss(dlogp, stats kernels.Buffer, in kernels.LossIn, l kernels.Loss, T int) {
	defer b.release()
	floats := func(x kernels.Buffer) []C.float { return unsafe.Slice(b.f32(x), T) }
	var (
		d         = floats(dlogp)
		logp, old = floats(in.LogP), floats(in.OldLogP)
		entropy   = floats(in.Entropy)
		advantage = floats(in.Advantage)
		weight    = floats(in.Weight)
		sum       = unsafe.Slice((*float64)(b.f64(stats)), kernels.NumStats)
	)
	clear(sum)
	sum[kernels.StatRatioMin], sum[kernels.StatRatioMax] = math.Inf(1), math.Inf(-1)
	for t, w := range weight {
		if w == 0 {
			d[t] = 0
			continue
		}
		diff := float64(logp[t]) - float64(old[t])
		ratio := math.Exp(diff)
		loss, slope, clipped := lossOf(l, float64(logp[t]), ratio, float64(advantage[t]))
		d[t] = C.float(float64(w) * slope)
		sum[kernels.StatLoss] += float64(w) * loss
		sum[kernels.StatRows]++
		sum[kernels.StatRatio] += ratio
		sum[kernels.StatRatioSq] += ratio * ratio
		sum[kernels.StatRatioMin] = min(sum[kernels.StatRatioMin], ratio)
		sum[kernels.StatRatioMax] = max(sum[kernels.StatRatioMax], ratio)
		sum[kernels.StatKL1] -= diff
		sum[kernels.StatKL2] += diff * diff / 2
		sum[kernels.StatMaxDiff] = max(sum[kernels.StatMaxDiff], math.Abs(diff))
		sum[kernels.StatEntropy] += float64(entropy[t])
		if clipped {
			sum[kernels.StatClipped]++
		}
	}
}

// lossOf is the loss of a row of weight 1, its derivative by logp, and whether the clip range
// changed that derivative.
func lossOf(l kernels.Loss, logp, ratio, advantage float64) (loss, slope float64, clipped bool) {
	clamped := max(float64(l.Low), min(ratio, float64(l.High)))
	switch l.Kind {
	case kernels.CrossEntropy:
		return -advantage * logp, -advantage, false
	case kernels.CISPO:
		return -clamped * advantage * logp, -clamped * advantage, clamped != ratio && advantage != 0
	case kernels.PPO:
		if clamped*advantage < ratio*advantage {
			return -clamped * advantage, 0, true
		}
	}
	return -ratio * advantage, -ratio * advantage, false
}

// SumSquares adds the sums of runs of fixed size in order.
func (b *backend) SumSquares(out, x kernels.Buffer, n int) {
	defer b.release()
	runs := blocksOf(n, C.RUN)
	a := args[C.grpo_sum_squares](b)
	a.out = (*C.double)(b.shared(slotPartial, 8*runs))
	a.x, a.n = b.f32(x), C.int64_t(n)
	partial := unsafe.Slice(a.out, runs)
	b.run(b.ops.sum_squares, runs, 1)
	var sum C.double
	for _, p := range partial {
		sum += p
	}
	*b.f64(out) = sum
}

// Adam updates p, m and v in place.
func (b *backend) Adam(p, m, v, g kernels.Buffer, s kernels.AdamStep, n int) {
	defer b.release()
	a := args[C.grpo_adam](b)
	a.p, a.m, a.v = b.f32(p), b.f32(m), b.f32(v)
	a.g, a.n = b.f32(g), C.int64_t(n)
	a.rate, a.decay = C.float(s.LR), C.float(s.LR*s.WeightDecay)
	a.beta1, a.beta2, a.eps = C.float(s.Beta1), C.float(s.Beta2), C.float(s.Eps)
	a.scale = C.float(s.GradScale)
	a.correction1, a.correction2 = C.float(s.Correction1), C.float(s.Correction2)
	b.run(b.ops.adam, blocksOf(n, C.RUN), 1)
}
