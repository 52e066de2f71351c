package recipe

import (
	"github.com/seed-7879b91d/grpo/internal/objective"
	"github.com/seed-7879b91d/grpo/model"
)

// Effects are the metrics of a step about its recipe: what clipping, penalties and corrections did. A setting that is off has none.
type Effects struct {
	KLRef             *float64 `json:"kl_ref,omitempty"`             // mean KL estimate against the reference policy
	ClipLow           *float64 `json:"clip_low_fraction,omitempty"`  // tokens whose ratio was below the clip range
	ClipHigh          *float64 `json:"clip_high_fraction,omitempty"` // tokens whose ratio was above it
	ClipDual          *float64 `json:"clip_dual_fraction,omitempty"` // tokens bounded by clip_dual
	TISMean           *float64 `json:"tis_mean,omitempty"`           // mean correction of a token
	TISShare          *float64 `json:"tis_truncated,omitempty"`      // tokens whose correction was above tis_cap
	Overlong          *float64 `json:"overlong_penalty_mean,omitempty"`
	RewardsClipped    *float64 `json:"reward_clipped,omitempty"`    // completions whose reward was clipped
	AdvantagesClipped *float64 `json:"advantage_clipped,omitempty"` // advantages that were clipped
	NotLearnt         *int     `json:"n_not_positive,omitempty"`    // completions left out by positive_only
}

func mean(sum float64, n int) *float64 {
	if n > 0 {
		sum /= float64(n)
	}
	return &sum
}

// compared records the effects of computing the advantages.
func (e *Effects) compared(c objective.Comparison, a objective.Advantages) {
	if c.Buffer > 0 {
		e.Overlong = &a.Overlong
	}
	if c.Shaping.Clip > 0 {
		e.RewardsClipped = &a.Clipped
	}
	if c.Bound > 0 {
		e.AdvantagesClipped = &a.Bounded
	}
}

// AdvantageEffects returns the effects of computing the advantages, before any update.
func (r *Recipe) AdvantageEffects() Effects { return r.effects }

// Effects returns the effects as of the step's last update. It also sets the clipped fraction of s.
func (r *Recipe) Effects(s *model.Stats) Effects {
	e, seen := r.effects, r.seen
	if seen.Tokens == 0 { // the loss is a kernel's or the caller's own, or there was nothing to train on
		return e
	}
	s.Clipped = *mean(float64(seen.Low+seen.High+seen.Dual), seen.Tokens)
	if low, high := r.Loss.Clips(); low != high {
		e.ClipLow, e.ClipHigh = mean(float64(seen.Low), seen.Tokens), mean(float64(seen.High), seen.Tokens)
	}
	if r.Loss.Dual > 0 {
		e.ClipDual = mean(float64(seen.Dual), seen.Tokens)
	}
	if r.Loss.Corrects() {
		e.TISMean, e.TISShare = mean(seen.Correction, seen.Tokens), mean(float64(seen.Truncated), seen.Tokens)
	}
	if r.Loss.KL > 0 {
		e.KLRef = mean(seen.KL, seen.Tokens)
	}
	return e
}

// RecordLeftOut records how many completions PositiveOnly left out.
func (r *Recipe) RecordLeftOut(n int) {
	if r.PositiveOnly {
		r.effects.NotLearnt = &n
	}
}
