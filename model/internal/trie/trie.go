// Package trie distributes sequences over batches so that those with a common prefix are together, and the prefix is computed
// once.
package trie

import (
	"math"
	"slices"
)

// Sequence is a sequence to distribute: its tokens, and a mask of the rows that are trained on. Without a mask every token is
// scored, and none is trained on.
type Sequence struct {
	Tokens []int32
	Mask   []bool
}

// Deal is the place of a sequence. It shares its first Shared rows with the sequence that the batch got before it.
type Deal struct{ Sequence, Batch, Shared int }

// Dealer distributes sequences, and reuses its memory: a result is valid until the next call.
type Dealer struct {
	sequences []Sequence
	order     []int // the sequences in the order of a walk over their trie
	common    []int // for each in that order: how many rows it has in common with the one before
	units     []int // in that order: the ends of subtrees that stay together
	spare     []int

	room   []int // free rows of each batch
	shared []int // for each batch: how many rows the next sequence has in common with its last one
	deals  []Deal
}

// Deal assigns each sequence to a batch of at most maxRows rows; a longer one gets its own batch. Without share each goes, in
// order, to the first batch with room. With share a subtree of the trie goes to one batch if it fits: to the one with room
// that has most of its prefix.
func (d *Dealer) Deal(sequences []Sequence, maxRows int, share bool) []Deal {
	d.sequences, d.order, d.common, d.units = sequences, d.order[:0], d.common[:0], d.units[:0]
	d.room, d.shared, d.deals = d.room[:0], d.shared[:0], d.deals[:0]
	for i := range sequences {
		d.order, d.common = append(d.order, i), append(d.common, 0)
	}
	if share {
		d.arrange(0, len(d.order), 0)
	}
	d.cut(0, len(d.order), maxRows)
	from := 0
	for _, to := range d.units {
		for b := range d.shared {
			d.shared[b] = min(d.shared[b], d.common[from])
		}
		d.place(from, to, maxRows)
		from = to
	}
	return d.deals
}

// place assigns a unit to the batch with room that has most of its prefix, or to a new one.
func (d *Dealer) place(from, to, maxRows int) {
	inside, least := 0, math.MaxInt
	for i := from + 1; i < to; i++ {
		inside += d.takes(i, d.common[i])
		least = min(least, d.common[i])
	}
	best := -1
	for b, room := range d.room {
		if d.takes(from, d.shared[b])+inside <= room && (best < 0 || d.shared[b] > d.shared[best]) {
			best = b
		}
	}
	if best < 0 {
		best = len(d.room)
		d.room, d.shared = append(d.room, maxRows), append(d.shared, 0)
	}
	d.room[best] -= d.takes(from, d.shared[best]) + inside
	d.deals = append(d.deals, Deal{d.order[from], best, d.shared[best]})
	for i := from + 1; i < to; i++ {
		d.deals = append(d.deals, Deal{d.order[i], best, d.common[i]})
	}
	for b := range d.shared {
		d.shared[b] = min(d.shared[b], least)
	}
	d.shared[best] = math.MaxInt
}

// takes is the most rows of memory that a sequence takes in a batch that has its first shared rows: one for each new row, each
// further target of a row, and each further token of a target.
func (d *Dealer) takes(at, shared int) int {
	s := d.sequences[d.order[at]]
	n := len(s.Tokens) - shared
	switch {
	case shared == 0:
		return n
	case s.Mask == nil: // the last shared row gets a further target
		return n + 1
	}
	for _, learned := range s.Mask[:shared] {
		if learned {
			n++
		}
	}
	return n
}

// cut makes units of the largest subtrees of order[from:to] that fit into a batch, and of single sequences that do not
// fit.
func (d *Dealer) cut(from, to, maxRows int) {
	if from == to {
		return
	}
	size := d.takes(from, 0)
	for i := from + 1; i < to; i++ {
		size += d.takes(i, d.common[i])
	}
	if size <= maxRows || to-from == 1 {
		d.units = append(d.units, to)
		return
	}
	least, start := slices.Min(d.common[from+1:to]), from
	for i := from + 1; i < to; i++ {
		if d.common[i] == least {
			d.cut(start, i, maxRows)
			start = i
		}
	}
	d.cut(start, to, maxRows)
}

// arrange sorts order[from:to], which agree in their first depth tokens, into the order of a walk over their trie, where
// branches are in the order of their first sequences.
func (d *Dealer) arrange(from, to, depth int) {
	if to-from < 2 {
		return // a single sequence has no branches
	}
	for d.agree(from, to, depth) {
		depth++
	}
	for start := from; start < to; {
		token := d.token(start, depth)
		end := d.gather(start, to, depth)
		for i := start + 1; i < end; i++ {
			d.common[i] = depth // correct for sequences that end here; arrange sets those of the others
		}
		if token >= 0 {
			d.arrange(start, end, depth+1)
		}
		if end < to {
			d.common[end] = depth
		}
		start = end
	}
}

// token is the token of a sequence at a depth, −1 after its end.
func (d *Dealer) token(at, depth int) int32 {
	if tokens := d.sequences[d.order[at]].Tokens; depth < len(tokens) {
		return tokens[depth]
	}
	return -1
}

// agree tells whether all of order[from:to] continue with the same token.
func (d *Dealer) agree(from, to, depth int) bool {
	first := d.token(from, depth)
	for i := from + 1; i < to; i++ {
		if d.token(i, depth) != first {
			return false
		}
	}
	return first >= 0
}

// gather moves the sequences that continue like order[start] right after it, and returns where the rest begins. Both keep their order.
func (d *Dealer) gather(start, to, depth int) (end int) {
	token := d.token(start, depth)
	d.spare, end = d.spare[:0], start
	for i := start; i < to; i++ {
		if d.token(i, depth) == token {
			d.order[end] = d.order[i]
			end++
		} else {
			d.spare = append(d.spare, d.order[i])
		}
	}
	copy(d.order[end:to], d.spare)
	return end
}
