package recipe

import (
	"slices"

	"github.com/seed-7879b91d/grpo/internal/objective"
	"github.com/seed-7879b91d/grpo/model"
)

// BeginUpdate forgets what the loss saw in the update before.
func (r *Recipe) BeginUpdate() { r.seen = objective.Seen{} }

// Alone has the loss shown one datum of the step, number i, until the step after.
func (r *Recipe) Alone(i int) { r.first = i }

// loss computes what no kernel knows. All of it is done in double precision.
func (r *Recipe) loss(s *model.LossSequence) float64 {
	x, i := &r.scratch, r.first+s.Index
	x.LogP, x.Old = wide(x.LogP, s.LogP), wide(x.Old, s.Old)
	x.Advantage, x.Weight = wide(x.Advantage, s.Advantage), wide(x.Weight, s.Weight)
	x.Entropy = wide(x.Entropy, s.Entropy)
	x.Grad = slices.Grow(x.Grad[:0], len(x.LogP))[:len(x.LogP)]
	if r.reference != nil {
		x.Ref = r.reference[i]
	}
	if r.near[i] == nil { // this is the first update
		r.near[i] = slices.Clone(x.LogP)
	}
	x.Near = r.near[i]
	loss := r.Loss.Of(x, &r.seen)
	for t, g := range x.Grad {
		s.Grad[t] = float32(g)
	}
	return loss
}

// wide are numbers in double precision, in the memory of into.
func wide(into []float64, numbers []float32) []float64 {
	into = into[:0]
	for _, x := range numbers {
		into = append(into, float64(x))
	}
	return into
}
