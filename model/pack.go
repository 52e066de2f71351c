package model

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/model/internal/trie"
)

// Reduction is how a loss adds up over the tokens of a step.
type Reduction string

const (
	Sum          Reduction = "sum"           // every token counts as one
	TokenMean    Reduction = "token_mean"    // divided by the tokens of the step
	SequenceMean Reduction = "sequence_mean" // each sequence's mean, divided by the sequences of the step
)

// ParseReduction finds the reduction of that name.
func ParseReduction(name string) (Reduction, error) {
	switch r := Reduction(name); r {
	case Sum, TokenMean, SequenceMean:
		return r, nil
	}
	return "", fmt.Errorf("reduction %q is not known; expected one of [%q %q %q]", name, Sum, TokenMean, SequenceMean)
}

// Pack lays the datums of a step into batches of at most maxRows rows, in order, each into the first
// batch with room. A longer datum gets a batch of its own. The weights make the sum over all batches
// the reduction over the whole step.
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
	k.sequences = k.sequences[:0]
	for i := range datums {
		tokens += datums[i].Trainable()
		k.sequences = append(k.sequences, trie.Sequence{Tokens: datums[i].Tokens, Mask: datums[i].Mask})
	}
	for _, b := range k.deal(maxRows, share) {
		b.teach(datums, r, tokens)
	}
	return k.batches
}

// packToScore lays sequences into batches that ask for every token but the first of each.
func (k *packer) packToScore(sequences [][]int32, maxRows int, share bool) []*Batch {
	k.sequences = k.sequences[:0]
	for _, s := range sequences {
		k.sequences = append(k.sequences, trie.Sequence{Tokens: s[:len(s)-1]})
	}
	for _, b := range k.deal(maxRows, share) {
		b.score(func(i, row int) int32 { return sequences[i][row+1] })
	}
	return k.batches
}

// packTargets lays datums into batches that ask for the target of every row. Rows that several share may be asked for as
// many targets.
func (k *packer) packTargets(datums []Datum, maxRows int, share bool) []*Batch {
	k.sequences = k.sequences[:0]
	for i := range datums {
		k.sequences = append(k.sequences, trie.Sequence{Tokens: datums[i].Tokens, Mask: datums[i].Mask})
	}
	for _, b := range k.deal(maxRows, share) {
		b.score(func(i, row int) int32 { return datums[i].Targets[row] })
	}
	return k.batches
}

// deal lays the rows of the sequences into batches.
func (k *packer) deal(maxRows int, share bool) []*Batch {
	k.batches = k.batches[:0]
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

// weight is that of a row of the datum, in a step of n datums that teach so many tokens.
func (r Reduction) weight(d *Datum, n, tokens int) float32 {
	switch r {
	case TokenMean:
		return float32(1 / float64(tokens))
	case SequenceMean:
		return float32(1 / (float64(n) * float64(d.Trainable())))
	}
	return 1
}
