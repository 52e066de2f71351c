package model

import "fmt"

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
	return new(packer).pack(datums, maxRows, r)
}

// packer packs step after step into the same memory: its batches stand until it packs again.
type packer struct {
	pool    []*Batch
	batches []*Batch
	room    []int
}

func (k *packer) pack(datums []Datum, maxRows int, r Reduction) []*Batch {
	tokens := 0
	for i := range datums {
		tokens += datums[i].Trainable()
	}
	k.reset()
	for i := range datums {
		d, weight := &datums[i], float32(1)
		switch r {
		case TokenMean:
			weight = float32(1 / float64(tokens))
		case SequenceMean:
			weight = float32(1 / (float64(len(datums)) * float64(d.Trainable())))
		}
		k.batchFor(d.Rows(), maxRows).add(i, d, weight)
	}
	return k.batches
}

// packToScore lays sequences into batches that ask for every token but the first of each.
func (k *packer) packToScore(sequences [][]int32, maxRows int) []*Batch {
	k.reset()
	for i, s := range sequences {
		n := len(s) - 1
		b := k.batchFor(n, maxRows)
		b.addSequence(i, s[:n])
		b.Targets = append(b.Targets, s[1:]...)
	}
	return k.batches
}

func (k *packer) reset() { k.batches, k.room = k.batches[:0], k.room[:0] }

// batchFor is the first batch with room for n rows, or a new one.
func (k *packer) batchFor(n, maxRows int) *Batch {
	for b := range k.batches {
		if n <= k.room[b] {
			k.room[b] -= n
			return k.batches[b]
		}
	}
	if len(k.batches) == len(k.pool) {
		k.pool = append(k.pool, &Batch{})
	}
	b := k.pool[len(k.batches)]
	b.reset()
	k.batches, k.room = append(k.batches, b), append(k.room, maxRows-n)
	return b
}

// reset empties a batch and keeps its memory.
func (b *Batch) reset() {
	b.Tokens, b.Positions, b.Targets = b.Tokens[:0], b.Positions[:0], b.Targets[:0]
	b.OldLogProbs, b.Advantages, b.Weights = b.OldLogProbs[:0], b.Advantages[:0], b.Weights[:0]
	b.Starts, b.Sequences = append(b.Starts[:0], 0), b.Sequences[:0]
}

func (b *Batch) add(i int, d *Datum, weight float32) {
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
