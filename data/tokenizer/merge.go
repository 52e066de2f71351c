package tokenizer

import (
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// bpe merges the bytes of a piece into tokens: again and again the adjacent pair that was learned
// first, the leftmost where it stands more than once.
type bpe struct {
	vocab        map[string]int32 // bytes of a token to its id
	byteID       [256]int32       // the tokens of one byte
	pairs        pairTable
	made         []int32 // the token that the merge of each rank makes
	ignoreMerges bool    // a piece that is a token is that token, whatever the merges say
	cache        pieceCache
}

const (
	noRank = math.MaxInt32
	// smallPiece is the length in bytes up to which a piece is merged by looking for the lowest rank
	// (quadratic, on the stack) and kept in the cache.
	smallPiece = 64
)

// appendPiece appends the tokens of one piece.
func (m *bpe) appendPiece(ids []int32, piece string) []int32 {
	if len(piece) == 1 {
		return append(ids, m.byteID[piece[0]])
	}
	if len(piece) > smallPiece {
		if id, ok := m.whole(piece); ok {
			return append(ids, id)
		}
		return m.mergeLong(ids, piece)
	}
	slot := m.cache.slot(piece)
	if e := slot.Load(); e != nil && e.piece == piece {
		return append(ids, e.ids...)
	}
	var symbols [smallPiece]int32
	found := m.mergeSmall(symbols[:0], piece)
	// The piece is a part of the caller's text, which the cache must not keep alive.
	slot.Store(&cached{strings.Clone(piece), slices.Clone(found)})
	return append(ids, found...)
}

// whole finds a piece that is a token by itself, where the file says that this goes before merging.
func (m *bpe) whole(piece string) (int32, bool) {
	if !m.ignoreMerges {
		return 0, false
	}
	id, ok := m.vocab[piece]
	return id, ok
}

// mergeSmall merges a piece of at most smallPiece bytes in symbols.
func (m *bpe) mergeSmall(symbols []int32, piece string) []int32 {
	if id, ok := m.whole(piece); ok {
		return append(symbols, id)
	}
	for i := range len(piece) {
		symbols = append(symbols, m.byteID[piece[i]])
	}
	var ranks [smallPiece]int32 // of the pair that starts at each symbol
	for i := range len(symbols) - 1 {
		ranks[i] = m.pairs.rank(symbols[i], symbols[i+1])
	}
	for {
		at, best := 0, int32(noRank)
		for i, r := range ranks[:len(symbols)-1] {
			if r < best {
				at, best = i, r
			}
		}
		if best == noRank {
			return symbols
		}
		symbols[at] = m.made[best]
		symbols = append(symbols[:at+1], symbols[at+2:]...)
		copy(ranks[at:], ranks[at+1:len(symbols)])
		if at > 0 {
			ranks[at-1] = m.pairs.rank(symbols[at-1], symbols[at])
		}
		if at+1 < len(symbols) {
			ranks[at] = m.pairs.rank(symbols[at], symbols[at+1])
		}
	}
}

// pieceCache remembers the tokens of short pieces: programs repeat themselves. It is a fixed number of
// slots, each holding the last piece that hashed to it; it changes speed, never a result.
type pieceCache struct {
	seed  maphash.Seed
	slots [1 << 16]atomic.Pointer[cached]
}

type cached struct {
	piece string
	ids   []int32
}

func (c *pieceCache) slot(piece string) *atomic.Pointer[cached] {
	return &c.slots[maphash.String(c.seed, piece)%uint64(len(c.slots))]
}

// pairTable maps two adjacent tokens to the rank of their merge: an open hash table, at most half full.
type pairTable struct {
	slots []pairSlot
	shift uint
}

type pairSlot struct {
	key  uint64
	rank int32 // plus 1; 0 is an empty slot
}

func newPairTable(n int) pairTable {
	bits := uint(1)
	for 1<<bits < 2*n+1 {
		bits++
	}
	return pairTable{make([]pairSlot, 1<<bits), 64 - bits}
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// find gives the slot of a key, or the empty one where it belongs.
func (t *pairTable) find(key uint64) *pairSlot {
	i := int((key * 0x9E3779B97F4A7C15) >> t.shift)
	for {
		s := &t.slots[i]
		if s.key == key || s.rank == 0 {
			return s
		}
		i = (i + 1) & (len(t.slots) - 1)
	}
}

// add reports false where the pair has a rank already.
func (t *pairTable) add(left, right, rank int32) bool {
	key := pairKey(left, right)
	s := t.find(key)
	if s.rank != 0 {
		return false
	}
	*s = pairSlot{key, rank + 1}
	return true
}

func (t *pairTable) rank(left, right int32) int32 {
	if s := t.find(pairKey(left, right)); s.rank != 0 {
		return s.rank - 1
	}
	return noRank
}

// longMerge is the scratch space of mergeLong.
type longMerge struct {
	symbols    []int32 // the token that starts at each byte
	ranks      []int32 // of the pair that starts there; noRank inside a token
	prev, next []int32 // the neighbours
	heap       []uint64
}

var longMerges = sync.Pool{New: func() any { return new(longMerge) }}

// mergeLong merges a piece of any length in n log n: a heap of pairs by rank and place. A pair that has
// changed since it was put there is known by its rank.
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
	w.symbols, w.ranks = w.symbols[:0], w.ranks[:0]
	w.prev, w.next, w.heap = w.prev[:0], w.next[:0], w.heap[:0]
	for i := range len(piece) {
		w.symbols = append(w.symbols, m.byteID[piece[i]])
		w.ranks = append(w.ranks, noRank)
		w.prev = append(w.prev, int32(i-1))
		w.next = append(w.next, int32(i+1))
	}
	for i := range len(piece) {
		w.rankPair(m, int32(i))
	}
}

// rankPair looks up the pair that starts at i and queues it if it can be merged.
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
