package model

import (
	"fmt"
	"slices"

	"github.com/seed-7879b91d/grpo/kernels"
)

// LossFunc is a loss of the caller's. It runs on the host, between the forward and the backward pass, once for each sequence with a row in
// its mask, in the order of the batch. The loss of the step is the sum of its results. It must depend on the sequence alone; otherwise the
// result depends on how sequences are packed.
type LossFunc func(s *LossSequence) (loss float64)

// LossSequence is the input of a LossFunc, and its gradient. The slices have an element for each row in the mask, in order, and are
// valid during the call only.
type LossSequence struct {
	Index     int       // index of the datum in the call of Accumulate
	LogP      []float32 // log-probabilities of the targets under the current policy
	Old       []float32 // the same under the policy that sampled, as recorded
	Entropy   []float32 // of the current policy's distribution at each target
	Advantage []float32
	// Weight is the factor of each row that implements the Reduction: 1 for Sum, 1/rows of the step for TokenMean, 1/sequences of the step
	// for SequenceSum, and for SequenceMean 1/(sequences of the step · rows of this one). A loss that ignores it has the reduction Sum.
	Weight []float32

	Grad []float32 // for the loss to write, zero at first: the derivative of the loss by each LogP

	places []int32 // indices of its tokens in the batch
}

// loadLoss sets the loss of the next run.
func (p *Policy) loadLoss(o Objective, batch *Batch) {
	run := &p.inputs.run
	run.Loss, run.HostLoss = o.Loss, nil
	if o.Custom != nil {
		run.Loss = kernels.Loss{Kind: kernels.ImportanceSampling}
		run.HostLoss = func(dlogp, stats, logp, entropy kernels.Buffer) error {
			return p.customLoss(o.Custom, batch, dlogp, stats, logp, entropy)
		}
	}
}

// customLoss replaces gradient and loss of the kernel by those of the caller's loss.
func (p *Policy) customLoss(f LossFunc, batch *Batch, dlogp, stats, logp, entropy kernels.Buffer) error {
	fetched, err := p.logp.fetch(p.b, entropy, len(batch.Weights))
	if err != nil {
		return err
	}
	entropies := slices.Clone(fetched)
	values, err := p.logp.fetch(p.b, logp, len(batch.Weights))
	if err != nil {
		return err
	}
	s, loss, grad := LossSequence{}, 0.0, make([]float32, len(batch.Weights))
	for k := range batch.Sequences {
		s.read(batch, k, values, entropies)
		if len(s.places) == 0 {
			continue
		}
		if loss += f(&s); len(s.Grad) != len(s.places) {
			return fmt.Errorf("datum %d: the program's own loss left %d derivatives in Grad, expected %d, one for each LogP",
				s.Index, len(s.Grad), len(s.places))
		}
		for i, place := range s.places {
			grad[place] = s.Grad[i]
		}
	}
	p.b.Upload(dlogp, grad)
	p.b.Upload(stats.Slice(kernels.StatLoss, kernels.StatLoss+1), []float64{loss})
	return nil
}

// read collects the unmasked rows of sequence k.
func (s *LossSequence) read(b *Batch, k int, logp, entropy []float32) {
	s.Index = b.Sequences[k]
	s.places, s.LogP, s.Old, s.Entropy = s.places[:0], s.LogP[:0], s.Old[:0], s.Entropy[:0]
	s.Advantage, s.Weight = s.Advantage[:0], s.Weight[:0]
	for _, place := range b.Places[b.Offsets[k]:b.Offsets[k+1]] {
		if place < 0 {
			continue
		}
		s.places = append(s.places, place)
		s.LogP = append(s.LogP, logp[place])
		s.Old = append(s.Old, b.OldLogProbs[place])
		s.Entropy = append(s.Entropy, entropy[place])
		s.Advantage = append(s.Advantage, b.Advantages[place])
		s.Weight = append(s.Weight, b.Weights[place])
	}
	s.Grad = make([]float32, len(s.places))
}
