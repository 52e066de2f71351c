package tokenizer

import "sync"

// longMerge is the scratch space of mergeLong: a doubly linked list of tokens, and a heap of their pairs.
type longMerge struct {
	symbols    []int32  // the tokens, each at the index of its first byte or character
	ranks      []int32  // of the pair that starts with that token; noRank inside a token
	prev, next []int32  // the indices of the neighbours
	heap       []uint64 // rank<<32 | index of pairs that can be merged
}

var longMerges = sync.Pool{New: func() any { return new(longMerge) }}

// mergeLong merges a piece of any length in O(n log n), by a heap of pairs ordered by rank and index. It
// skips an entry whose pair has changed since it was pushed, which it recognises by the outdated rank.
func (m *bpe) mergeLong(ids []int32, piece string) []int32 {
	w := longMerges.Get().(*longMerge)
	defer longMerges.Put(w)
	w.load(m, piece)
	for len(w.heap) > 0 {
		top := w.pop()
		i, rank := int32(uint32(top)), int32(top>>32)
		if w.ranks[i] != rank {
			continue
		}
		j := w.next[i]
		after := w.next[j]
		w.symbols[i], w.ranks[j] = m.made[rank], noRank
		w.next[i] = after
		if int(after) < len(w.symbols) {
			w.prev[after] = i
		}
		w.rankPair(m, i)
		if before := w.prev[i]; before >= 0 {
			w.rankPair(m, before)
		}
	}
	for i := int32(0); int(i) < len(w.symbols); i = w.next[i] {
		ids = append(ids, w.symbols[i])
	}
	return ids
}

func (w *longMerge) load(m *bpe, piece string) {
	w.symbols, w.ranks = m.appendSymbols(w.symbols[:0], piece), w.ranks[:0]
	w.prev, w.next, w.heap = w.prev[:0], w.next[:0], w.heap[:0]
	for i := range w.symbols {
		w.ranks = append(w.ranks, noRank)
		w.prev = append(w.prev, int32(i-1))
		w.next = append(w.next, int32(i+1))
	}
	for i := range w.symbols {
		w.rankPair(m, int32(i))
	}
}

// rankPair looks up the pair that starts at i and pushes it if it can be merged.
func (w *longMerge) rankPair(m *bpe, i int32) {
	w.ranks[i] = noRank
	if j := w.next[i]; int(j) < len(w.symbols) {
		w.ranks[i] = m.pairs.rank(w.symbols[i], w.symbols[j])
	}
	if w.ranks[i] != noRank {
		w.push(uint64(w.ranks[i])<<32 | uint64(uint32(i)))
	}
}

func (w *longMerge) push(v uint64) {
	w.heap = append(w.heap, v)
	i := len(w.heap) - 1
	for i > 0 && w.heap[(i-1)/2] > v {
		w.heap[i] = w.heap[(i-1)/2]
		i = (i - 1) / 2
	}
	w.heap[i] = v
}

func (w *longMerge) pop() uint64 {
	top := w.heap[0]
	n := len(w.heap) - 1
	v := w.heap[n]
	w.heap = w.heap[:n]
	i := 0
	for {
		child := 2*i + 1
		if child >= n {
			break
		}
		if child+1 < n && w.heap[child+1] < w.heap[child] {
			child++
		}
		if w.heap[child] >= v {
			break
		}
		w.heap[i] = w.heap[child]
		i = child
	}
	if n > 0 {
		w.heap[i] = v
	}
	return top
}
