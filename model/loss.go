package model

import (
	"fmt"
	"slices"

	"github.com/seed-7879b91d/grpo/kernels"
)

// LossFunc is a loss that the backend does not know. It is called once for each sequence of a batch that has a row that counts, in the
// batch's order, on the host between the forward and the backward pass. The loss of the step is the sum of what it returns. It must
// depend on the sequence alone if the result is not to depend on the packing.
type LossFunc func(s *LossSequence) (loss float64)

// LossSequence is what a loss may know of a sequence: one element for each row whose mask is set, in the order of the sequence. The
// slices are valid during the call only.
type LossSequence struct {
	Index     int       // of the datum in the list that Accumulate was given
	LogP      []float32 // of the targets, by the model as it is now
	Old       []float32 // as the sampler recorded them
	Entropy   []float32 // of the distribution that each target is one of, by the model as it is now
	Advantage []float32
	// Weight makes a sum over all rows of a step the reduction that is asked for: 1 under Sum, 1 over the rows of the step under TokenMean,
	// 1 over the sequences of the step under SequenceSum, and over the rows of this one too under SequenceMean. Ignored, it is Sum.
	Weight []float32

	Grad []float32 // to be written: the derivative of the loss by each LogP; zero before

	places []int32 // of its tokens in the batch
}

// loadLoss makes the objective's loss the one of the next run.
func (p *Policy) loadLoss(o Objective, batch *Batch) {
	run := &p.inputs.run
	run.Loss, run.OwnLoss = o.Loss, nil
	if o.Custom != nil {
		run.Loss = kernels.Loss{Kind: kernels.ImportanceSampling}
		run.OwnLoss = func(dlogp, stats, logp, entropy kernels.Buffer) error {
			return p.customLoss(o.Custom, batch, dlogp, stats, logp, entropy)
		}
	}
}

// customLoss computes a caller's loss over a batch in place of the kernel's.
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

// read takes the rows that count of sequence k.
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
