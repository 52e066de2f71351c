package oracle

import (
	"math"

	"github.com/seed-7879b91d/grpo/kernels"
)

func (reference) Loss(dlogp, stats kernels.Buffer, in kernels.LossIn, l kernels.Loss, T int) {
	var sum [kernels.NumStats]float64
	sum[kernels.StatRatioMin], sum[kernels.StatRatioMax] = math.Inf(1), math.Inf(-1)
	for t := range T {
		w := float64(own[float32](in.Weight)[t])
		if w == 0 {
			own[float32](dlogp)[t] = 0
			continue
		}
		logp, old := float64(own[float32](in.LogP)[t]), float64(own[float32](in.OldLogP)[t])
		ratio := math.Exp(logp - old)
		loss, slope, clipped := objective(l, logp, ratio, float64(own[float32](in.Advantage)[t]))
		own[float32](dlogp)[t] = float32(w * slope)
		sum[kernels.StatLoss] += w * loss
		sum[kernels.StatRows]++
		sum[kernels.StatRatio] += ratio
		sum[kernels.StatRatioSq] += ratio * ratio
		sum[kernels.StatRatioMin] = min(sum[kernels.StatRatioMin], ratio)
		sum[kernels.StatRatioMax] = max(sum[kernels.StatRatioMax], ratio)
		sum[kernels.StatKL1] += old - logp
		sum[kernels.StatKL2] += (old - logp) * (old - logp) / 2
		sum[kernels.StatMaxDiff] = max(sum[kernels.StatMaxDiff], math.Abs(logp-old))
		sum[kernels.StatEntropy] += float64(own[float32](in.Entropy)[t])
		if clipped {
			sum[kernels.StatClipped]++
		}
	}
	copy(own[float64](stats), sum[:])
}

// objective is the loss of one row of weight one, its derivative by logp, and whether the clip range
// changed that derivative.
func objective(l kernels.Loss, logp, ratio, advantage float64) (loss, slope float64, clipped bool) {
	clamped := min(max(ratio, float64(l.Low)), float64(l.High))
	switch l.Kind {
	case kernels.PPO:
		if clamped*advantage < ratio*advantage {
			return -clamped * advantage, 0, true
		}
		return -ratio * advantage, -ratio * advantage, false
	case kernels.CISPO:
		return -clamped * advantage * logp, -clamped * advantage, clamped != ratio && advantage != 0
	case kernels.CrossEntropy:
		return -advantage * logp, -advantage, false
	}
	return -ratio * advantage, -ratio * advantage, false
}

func (reference) SumSquares(out, x kernels.Buffer, n int) {
	v := own[float32](x)[:n]
	own[float64](out)[0] = dot(v, v)
}

func (reference) Adam(p, m, v, g kernels.Buffer, a kernels.AdamStep, n int) {
	var (
		P, M, V, G   = own[float32](p), own[float32](m), own[float32](v), own[float32](g)
		beta1, beta2 = float64(a.Beta1), float64(a.Beta2)
		rate, decay  = float64(a.LR), float64(a.LR) * float64(a.WeightDecay)
		fix1, fix2   = float64(a.Correction1), float64(a.Correction2)
	)
	for i := range n {
		grad := float64(a.GradScale) * float64(G[i])
		mean := beta1*float64(M[i]) + (1-beta1)*grad
		square := beta2*float64(V[i]) + (1-beta2)*grad*grad
		x := float64(P[i])
		x -= decay * x
		x -= rate * (mean / fix1) / (math.Sqrt(square/fix2) + float64(a.Eps))
		P[i], M[i], V[i] = float32(x), float32(mean), float32(square)
	}
}
