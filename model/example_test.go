package model_test

import (
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/model"
)

// gspo is a loss with one importance ratio for the whole sequence, the geometric mean of the ratios of its tokens, clipped like PPO's. It
// goes with the reduction SequenceMean.
func gspo(s *model.LossSequence) (loss float64) {
	n, sum := float64(len(s.LogP)), 0.0
	for i := range s.LogP {
		sum += float64(s.LogP[i]) - float64(s.Old[i])
	}
	ratio, advantage := math.Exp(sum/n), float64(s.Advantage[0])
	share := n * float64(s.Weight[0]) // the weight of the sequence in the step
	clipped := min(max(ratio, 1-3e-4), 1+4e-4) * advantage
	if ratio*advantage > clipped {
		return -share * clipped // clipped: the gradient stays zero
	}
	for i := range s.Grad {
		s.Grad[i] = float32(-share * ratio * advantage / n)
	}
	return -share * ratio * advantage
}

// A custom loss sees whole sequences, so it can express what no loss over single tokens can.
func ExampleLossFunc() {
	objective := model.Objective{Custom: gspo, Reduction: model.SequenceMean, Temperature: 1}

	s := &model.LossSequence{
		LogP: []float32{-1, -2}, Old: []float32{-0.5, -2}, Advantage: []float32{2, 2},
		Weight: []float32{0.125, 0.125}, // the weights of the rows of one of four sequences
		Grad:   make([]float32, 2),
	}
	loss := objective.Custom(s)
	fmt.Printf("loss %.4f, gradient %.4f\n", loss, s.Grad)
	// Output: loss -0.3894, gradient [-0.1947 -0.1947]
}
