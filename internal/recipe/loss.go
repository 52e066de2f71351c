package recipe

import (
	"slices"

	"github.com/seed-7879b91d/grpo/internal/objective"
	"github.com/seed-7879b91d/grpo/model"
)

// BeginUpdate resets the counters of the loss.
func (r *Recipe) BeginUpdate() { r.seen = objective.TokenCounts{} }

// OnlyDatum says that the loss is given only datum i of the step from now on, until the next step.
func (r *Recipe) OnlyDatum(i int) { r.first = i }

// loss computes, in double precision, the losses for which there is no kernel.
func (r *Recipe) loss(s *model.LossSequence) float64 {
	x, i := &r.scratch, r.first+s.Index
	x.LogP, x.Old = widen(x.LogP, s.LogP), widen(x.Old, s.Old)
	x.Advantage, x.Weight = widen(x.Advantage, s.Advantage), widen(x.Weight, s.Weight)
	x.Entropy = widen(x.Entropy, s.Entropy)
	x.Grad = slices.Grow(x.Grad[:0], len(x.LogP))[:len(x.LogP)]
	if r.reference != nil {
		x.Ref = r.reference[i]
	}
	if r.near[i] == nil { // the first update of the step
		r.near[i] = slices.Clone(x.LogP)
	}
	x.Near = r.near[i]
	loss := r.Loss.Of(x, &r.seen)
	for t, g := range x.Grad {
		s.Grad[t] = float32(g)
	}
	return loss
}

// widen converts numbers to double precision, reusing the memory of into.
func widen(into []float64, numbers []float32) []float64 {
	into = into[:0]
	for _, x := range numbers {
		into = append(into, float64(x))
	}
	return into
}
