// Package trie deals sequences to batches so that those that begin alike stand together: what they begin with is then there
// once.
package trie

import (
	"math"
	"slices"
)

// Sequence is one to deal: its tokens, and which of its rows something is learned from. Without a mask it is asked for every
// token, and learns from none.
type Sequence struct {
	Tokens []int32
	Mask   []bool
}

// Deal is where a sequence goes. Its first Shared rows are those of the one that the batch was dealt before it.
type Deal struct{ Sequence, Batch, Shared int }

// Dealer deals again and again in the same memory: what it gives stands until then.
type Dealer struct {
	sequences []Sequence
	order     []int // the sequences as the walk over their trie meets them
	common    []int // of each in that order: rows that it has in common with the one before
	units     []int // where subtrees end in that order that are not cut
	spare     []int

	room   []int // of each batch
	shared []int // of each batch: rows that the next sequence has in common with its last one
	deals  []Deal
}

// Deal gives each sequence a batch of at most maxRows rows; one that is longer gets a batch of its own. Where nothing is
// shared, they come in order, each into the first batch with room. Else a subtree of their trie is in one batch if it
// fits into one: in the one with room that has most of what it begins with.
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

// place gives a unit to the batch with room that has most of what it begins with, or to a new one.
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

// takes is the most that a sequence takes of a batch that has its first rows: rows, further targets of rows, and further
// tokens of one target. Each of these has a place in the memory of one row.
func (d *Dealer) takes(at, shared int) int {
	s := d.sequences[d.order[at]]
	n := len(s.Tokens) - shared
	switch {
	case shared == 0:
		return n
	case s.Mask == nil: // the target of the last row that is shared
		return n + 1
	}
	for _, learned := range s.Mask[:shared] {
		if learned {
			n++
		}
	}
	return n
}

// cut makes a unit of each of the largest subtrees of order[from:to] that fit into a batch, and of each sequence that
// does not.
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

// arrange puts order[from:to], which agree in so many tokens, in the order in which a walk over their trie meets them,
// where branches come as their first sequences do.
func (d *Dealer) arrange(from, to, depth int) {
	if to-from < 2 {
		return // a walk along its tokens would find nobody else
	}
	for d.agree(from, to, depth) {
		depth++
	}
	for start := from; start < to; {
		token := d.token(start, depth)
		end := d.gather(start, to, depth)
		for i := start + 1; i < end; i++ {
			d.common[i] = depth // of those that end here
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

// token is the one at a depth of a sequence, −1 behind its end.
func (d *Dealer) token(at, depth int) int32 {
	if tokens := d.sequences[d.order[at]].Tokens; depth < len(tokens) {
		return tokens[depth]
	}
	return -1
}

// agree tells whether all of order[from:to] go on with the same token.
func (d *Dealer) agree(from, to, depth int) bool {
	first := d.token(from, depth)
	for i := from + 1; i < to; i++ {
		if d.token(i, depth) != first {
			return false
		}
	}
	return first >= 0
}

// gather moves what goes on as order[start] does right behind it, and says where the rest begins, in its order.
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
