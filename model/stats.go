package model

import (
	"cmp"
	"math"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Stats are statistics of a loss over the unmasked rows.
type Stats struct {
	Rows int     `json:"tokens"`
	Loss float64 `json:"loss"`

	RatioMean float64 `json:"ratio_mean"`
	RatioMin  float64 `json:"ratio_min"`
	RatioMax  float64 `json:"ratio_max"`
	KL1       float64 `json:"kl_v1"` // mean of old − new
	KL2       float64 `json:"kl_v2"` // mean of its square, halved
	MaxDiff   float64 `json:"max_logp_diff"`
	Entropy   float64 `json:"entropy"`
	Clipped   float64 `json:"clip_fraction"`
	// ESS is the effective sample size as a share of the rows: 1 if all ratios are equal, 0 if the squares of all are 0.
	ESS float64 `json:"ess"`
	// Shared is the number of rows that sharing prefixes has saved.
	Shared int `json:"rows_shared,omitempty"`

	sums [kernels.NumStats]float64
}

// add adds the statistics of another batch.
func (s *Stats) add(batch *[kernels.NumStats]float64) {
	if s.sums[kernels.StatRows] == 0 {
		s.sums[kernels.StatRatioMin], s.sums[kernels.StatRatioMax] = math.Inf(1), math.Inf(-1)
	}
	for i, v := range batch {
		switch i {
		case kernels.StatRatioMin:
			s.sums[i] = min(s.sums[i], v)
		case kernels.StatRatioMax, kernels.StatMaxDiff:
			s.sums[i] = max(s.sums[i], v)
		default:
			s.sums[i] += v
		}
	}
	n := s.sums[kernels.StatRows]
	if s.Rows, s.Loss = int(n), s.sums[kernels.StatLoss]; n == 0 {
		return
	}
	s.RatioMean, s.MaxDiff = s.sums[kernels.StatRatio]/n, s.sums[kernels.StatMaxDiff]
	s.RatioMin, s.RatioMax = s.sums[kernels.StatRatioMin], s.sums[kernels.StatRatioMax]
	s.KL1, s.KL2 = s.sums[kernels.StatKL1]/n, s.sums[kernels.StatKL2]/n
	s.Entropy, s.Clipped = s.sums[kernels.StatEntropy]/n, s.sums[kernels.StatClipped]/n
	s.ESS = s.sums[kernels.StatRatio] * s.sums[kernels.StatRatio] / cmp.Or(n*s.sums[kernels.StatRatioSq], math.Inf(1))
}
