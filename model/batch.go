package model

import (
	"fmt"
)

// Batch is several sequences packed into rows, one after the other.
type Batch struct {
	Tokens, Positions []int32 // [T]
	Targets           []int32 // [T], −1 where nobody asks
	Starts            []int32 // [sequences + 1]: sequence s is rows [Starts[s], Starts[s+1])

	// What a loss needs, zero on rows that teach nothing.
	OldLogProbs, Advantages []float32 // [T]
	Weights                 []float32 // [T]

	// Sequences are the places of the packed sequences in the list that was packed.
	Sequences []int
}

// Rows is T.
func (b *Batch) Rows() int { return len(b.Tokens) }

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
	tokens := 0
	for _, d := range datums {
		tokens += d.Trainable()
	}
	weight := func(d Datum) float32 {
		switch r {
		case TokenMean:
			return float32(1 / float64(tokens))
		case SequenceMean:
			return float32(1 / (float64(len(datums)) * float64(d.Trainable())))
		}
		return 1
	}
	lengths := make([]int, len(datums))
	for i, d := range datums {
		lengths[i] = d.Rows()
	}
	var batches []*Batch
	for _, members := range packLengths(lengths, maxRows) {
		b := &Batch{Starts: []int32{0}}
		for _, i := range members {
			b.add(i, datums[i], weight(datums[i]))
		}
		batches = append(batches, b)
	}
	return batches
}

// packLengths tells which sequences share a batch.
func packLengths(lengths []int, maxRows int) [][]int {
	var batches [][]int
	var room []int
next:
	for i, n := range lengths {
		for b := range batches {
			if n <= room[b] {
				batches[b] = append(batches[b], i)
				room[b] -= n
				continue next
			}
		}
		batches = append(batches, []int{i})
		room = append(room, maxRows-n)
	}
	return batches
}

func (b *Batch) add(i int, d Datum, weight float32) {
	b.addSequence(i, d.Tokens)
	for k, teaches := range d.Mask {
		target, old, advantage, w := int32(-1), float32(0), float32(0), float32(0)
		if teaches {
			target, old, advantage, w = d.Targets[k], d.OldLogProbs[k], d.Advantages[k], weight
		}
		b.Targets = append(b.Targets, target)
		b.OldLogProbs = append(b.OldLogProbs, old)
		b.Advantages = append(b.Advantages, advantage)
		b.Weights = append(b.Weights, w)
	}
}

func (b *Batch) addSequence(i int, tokens []int32) {
	b.Tokens = append(b.Tokens, tokens...)
	for p := range tokens {
		b.Positions = append(b.Positions, int32(p))
	}
	b.Starts = append(b.Starts, int32(len(b.Tokens)))
	b.Sequences = append(b.Sequences, i)
}

// packToScore lays sequences into batches that ask for every token but the first of each.
func packToScore(sequences [][]int32, maxRows int) []*Batch {
	lengths := make([]int, len(sequences))
	for i, s := range sequences {
		lengths[i] = len(s) - 1
	}
	var batches []*Batch
	for _, members := range packLengths(lengths, maxRows) {
		b := &Batch{Starts: []int32{0}}
		for _, i := range members {
			s := sequences[i]
			b.addSequence(i, s[:len(s)-1])
			b.Targets = append(b.Targets, s[1:]...)
		}
		batches = append(batches, b)
	}
	return batches
}
