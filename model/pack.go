package model

import (
	"github.com/seed-7879b91d/grpo/model/internal/reduction"
	"github.com/seed-7879b91d/grpo/model/internal/trie"
)

// Reduction says how the losses of tokens are combined to that of the step: a string, one of the reductions; "" is Sum.
type Reduction = reduction.Reduction

// The reductions.
const (
	Sum          = reduction.Sum
	TokenMean    = reduction.TokenMean
	SequenceMean = reduction.SequenceMean
	SequenceSum  = reduction.SequenceSum
)

// ParseReduction finds the reduction of that name.
var ParseReduction = reduction.Parse

// Pack packs the datums of a step, which must pass Check, into micro-batches of at most maxRows rows, first-fit in their order. A longer
// datum gets a batch of its own. Weights are such that the sum over all batches is the reduction over the whole step.
func Pack(datums []Datum, maxRows int, r Reduction) []*Batch {
	return new(packer).pack(datums, maxRows, r, false)
}

// packer packs every step into the same memory: its batches are valid until it packs again.
type packer struct {
	pool      []*Batch
	batches   []*Batch
	dealer    trie.Dealer
	sequences []trie.Sequence
}

func (k *packer) pack(datums []Datum, maxRows int, r Reduction, share bool) []*Batch {
	tokens := 0
	for i := range datums {
		tokens += datums[i].Trainable()
	}
	for _, b := range k.deal(datums, maxRows, share) {
		b.teach(datums, r, tokens)
	}
	return k.batches
}

// packToScore packs datums into batches to score.
func (k *packer) packToScore(asked []Datum, maxRows int, share bool) []*Batch {
	for _, b := range k.deal(asked, maxRows, share) {
		b.score(asked)
	}
	return k.batches
}

// deal distributes the sequences over batches, and adds their rows.
func (k *packer) deal(datums []Datum, maxRows int, share bool) []*Batch {
	k.sequences, k.batches = k.sequences[:0], k.batches[:0]
	for i := range datums {
		k.sequences = append(k.sequences, trie.Sequence{Tokens: datums[i].Tokens, Mask: datums[i].Mask})
	}
	for _, d := range k.dealer.Deal(k.sequences, maxRows, share) {
		if d.Batch == len(k.pool) {
			k.pool = append(k.pool, &Batch{})
		}
		if d.Batch == len(k.batches) {
			k.batches = append(k.batches, k.pool[d.Batch])
			k.batches[d.Batch].reset()
		}
		k.batches[d.Batch].add(d.Sequence, k.sequences[d.Sequence].Tokens, d.Shared)
	}
	return k.batches
}
