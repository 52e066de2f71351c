package model

import (
	"github.com/seed-7879b91d/grpo/model/internal/reduction"
	"github.com/seed-7879b91d/grpo/model/internal/trie"
)

// Reduction is how a loss adds up over the tokens of a step: a string, one of the reductions; "" is Sum.
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

// Pack lays the datums of a step into batches of at most maxRows rows, in order, each into the first
// batch with room. A longer datum gets a batch of its own. The weights make the sum over all batches the reduction over the whole step.
func Pack(datums []Datum, maxRows int, r Reduction) []*Batch {
	return new(packer).pack(datums, maxRows, r, false)
}

// packer packs step after step into the same memory: its batches stand until it packs again.
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

// packToScore lays datums into batches that ask for the target of every row.
func (k *packer) packToScore(asked []Datum, maxRows int, share bool) []*Batch {
	for _, b := range k.deal(asked, maxRows, share) {
		b.score(asked)
	}
	return k.batches
}

// deal lays the rows of the sequences into batches.
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
