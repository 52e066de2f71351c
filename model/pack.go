package model

import (
	"fmt"
	"math"
	"slices"
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

// packer packs step after step into the same memory: its batches stand until it packs again. Where prefixes are shared,
// sequences that begin alike stand together: the largest subtrees of their trie that fit into a batch are not cut, and
// each goes into the batch with room that has most of what it begins with.
type packer struct {
	pool    []*Batch
	batches []*Batch
	room    []int
	shared  []int // of each batch: rows that the next sequence has in common with its last one

	datums []Datum // that are packed, or nil where sequences are scored
	tokens [][]int32
	order  []int // the sequences as the walk over their trie meets them
	common []int // of each in that order: rows that it has in common with the one before
	units  []int // where subtrees end in that order that are not cut
	spare  []int
}

func (k *packer) pack(datums []Datum, maxRows int, r Reduction, share bool) []*Batch {
	tokens := 0
	k.reset(datums)
	for i := range datums {
		tokens += datums[i].Trainable()
		k.tokens = append(k.tokens, datums[i].Tokens)
	}
	k.deal(maxRows, share)
	for _, b := range k.batches {
		b.teach(datums, r, tokens)
	}
	return k.batches
}

// packToScore lays sequences into batches that ask for every token but the first of each.
func (k *packer) packToScore(sequences [][]int32, maxRows int, share bool) []*Batch {
	k.reset(nil)
	for _, s := range sequences {
		k.tokens = append(k.tokens, s[:len(s)-1])
	}
	k.deal(maxRows, share)
	for _, b := range k.batches {
		b.score(sequences)
	}
	return k.batches
}

func (k *packer) reset(datums []Datum) {
	k.datums, k.tokens = datums, k.tokens[:0]
	k.batches, k.room, k.shared = k.batches[:0], k.room[:0], k.shared[:0]
	k.order, k.common, k.units = k.order[:0], k.common[:0], k.units[:0]
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

// deal gives each sequence a batch.
func (k *packer) deal(maxRows int, share bool) {
	for i := range k.tokens {
		k.order, k.common = append(k.order, i), append(k.common, 0)
	}
	if share {
		k.arrange(0, len(k.order), 0)
	}
	k.cut(0, len(k.order), maxRows)
	from := 0
	for _, to := range k.units {
		for b := range k.shared {
			k.shared[b] = min(k.shared[b], k.common[from])
		}
		k.place(from, to, maxRows)
		from = to
	}
}

// place gives a unit to the batch with room that has most of what it begins with, or to a new one.
func (k *packer) place(from, to, maxRows int) {
	inside, least := 0, math.MaxInt
	for i := from + 1; i < to; i++ {
		inside += k.takes(i, k.common[i])
		least = min(least, k.common[i])
	}
	best := -1
	for b, room := range k.room {
		if k.takes(from, k.shared[b])+inside <= room && (best < 0 || k.shared[b] > k.shared[best]) {
			best = b
		}
	}
	if best < 0 {
		best = k.open(maxRows)
	}
	k.room[best] -= k.takes(from, k.shared[best]) + inside
	shared := k.shared[best]
	for i := from; i < to; i++ {
		k.batches[best].add(k.order[i], k.tokens[k.order[i]], shared)
		if i+1 < to {
			shared = k.common[i+1]
		}
	}
	for b := range k.shared {
		k.shared[b] = min(k.shared[b], least)
	}
	k.shared[best] = math.MaxInt
}

// open adds an empty batch.
func (k *packer) open(maxRows int) (place int) {
	if len(k.batches) == len(k.pool) {
		k.pool = append(k.pool, &Batch{})
	}
	b := k.pool[len(k.batches)]
	b.reset()
	k.batches, k.room, k.shared = append(k.batches, b), append(k.room, maxRows), append(k.shared, 0)
	return len(k.batches) - 1
}

// takes is the most that a sequence takes of a batch that has its first rows: rows, further targets of rows, and further
// tokens of one target. Each of these has a place in the memory of one row.
func (k *packer) takes(at, shared int) int {
	i := k.order[at]
	n := len(k.tokens[i]) - shared
	switch {
	case shared == 0:
		return n
	case k.datums == nil: // the target of the last row that is shared
		return n + 1
	}
	for _, asked := range k.datums[i].Mask[:shared] {
		if asked {
			n++
		}
	}
	return n
}

// cut makes a unit of each of the largest subtrees of order[from:to] that fit into a batch, and of each sequence that
// does not.
func (k *packer) cut(from, to, maxRows int) {
	if from == to {
		return
	}
	size := k.takes(from, 0)
	for i := from + 1; i < to; i++ {
		size += k.takes(i, k.common[i])
	}
	if size <= maxRows || to-from == 1 {
		k.units = append(k.units, to)
		return
	}
	least, start := slices.Min(k.common[from+1:to]), from
	for i := from + 1; i < to; i++ {
		if k.common[i] == least {
			k.cut(start, i, maxRows)
			start = i
		}
	}
	k.cut(start, to, maxRows)
}

// arrange puts order[from:to], which agree in so many tokens, in the order in which a walk over their trie meets them,
// where branches come as their first sequences do.
func (k *packer) arrange(from, to, depth int) {
	for to-from > 1 && k.agree(from, to, depth) {
		depth++
	}
	for start := from; start < to; {
		token := k.token(start, depth)
		end := k.gather(start, to, depth)
		for i := start + 1; i < end; i++ {
			k.common[i] = depth // of those that end here
		}
		if token >= 0 {
			k.arrange(start, end, depth+1)
		}
		if end < to {
			k.common[end] = depth
		}
		start = end
	}
}

// token is the one at a depth of a sequence, −1 behind its end.
func (k *packer) token(at, depth int) int32 {
	if tokens := k.tokens[k.order[at]]; depth < len(tokens) {
		return tokens[depth]
	}
	return -1
}

// agree tells whether all of order[from:to] go on with the same token.
func (k *packer) agree(from, to, depth int) bool {
	first := k.token(from, depth)
	for i := from + 1; i < to; i++ {
		if k.token(i, depth) != first {
			return false
		}
	}
	return first >= 0
}

// gather moves what goes on as order[start] does right behind it, and says where the rest begins, in its order.
func (k *packer) gather(start, to, depth int) (end int) {
	token := k.token(start, depth)
	k.spare, end = k.spare[:0], start
	for i := start; i < to; i++ {
		if k.token(i, depth) == token {
			k.order[end] = k.order[i]
			end++
		} else {
			k.spare = append(k.spare, k.order[i])
		}
	}
	copy(k.order[end:to], k.spare)
	return end
}
