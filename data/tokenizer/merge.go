package tokenizer

import (
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync/atomic"
)

// bpe merges the bytes or characters of a piece into tokens: it repeatedly merges the adjacent pair of the
// lowest rank, the leftmost if it occurs more than once.
type bpe struct {
	vocab        map[string]int32 // ids of tokens by their form in a piece: see spelling
	byteID       [256]int32       // the token of each byte
	chars        *characters      // nil: a piece is merged from its bytes
	seams        *seams           // nil: a piece must be merged as a whole
	pairs        pairTable
	made         []int32 // the token that the merge of each rank produces
	ignoreMerges bool    // a piece that equals a token becomes that token without merging
	cache        pieceCache
}

const (
	noRank = math.MaxInt32
	// smallPiece is the length in bytes up to which a piece is merged by repeated linear search for the
	// lowest rank (quadratic, on the stack) and cached.
	smallPiece = 64
)

// appendPiece appends the tokens of one piece.
func (m *bpe) appendPiece(ids []int32, piece string) []int32 {
	if len(piece) == 1 {
		return m.appendSymbols(ids, piece)
	}
	if len(piece) > smallPiece {
		if id, ok := m.wholePiece(piece); ok {
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
	// Clone the piece, so that the cache does not keep the whole text of the caller alive.
	slot.Store(&cached{strings.Clone(piece), slices.Clone(found)})
	return append(ids, found...)
}

// wholePiece looks up a piece as a token of its own, if ignore_merges is set.
func (m *bpe) wholePiece(piece string) (int32, bool) {
	if !m.ignoreMerges {
		return 0, false
	}
	id, ok := m.vocab[piece]
	return id, ok
}

// appendSymbols appends the tokens of the bytes or characters of a piece, with which merging begins.
func (m *bpe) appendSymbols(symbols []int32, piece string) []int32 {
	if m.chars != nil {
		return m.chars.append(symbols, piece, &m.byteID)
	}
	for i := range len(piece) {
		symbols = append(symbols, m.byteID[piece[i]])
	}
	return symbols
}

// mergeSmall merges a piece of at most smallPiece bytes in symbols.
func (m *bpe) mergeSmall(symbols []int32, piece string) []int32 {
	if id, ok := m.wholePiece(piece); ok {
		return append(symbols, id)
	}
	symbols = m.appendSymbols(symbols, piece)
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

// pieceCache caches the tokens of short pieces, because texts repeat most of their words. Each of a fixed
// number of slots holds the last piece that hashed to it. The cache affects speed, never a result.
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

// pairTable maps two adjacent tokens to the rank of their merge: a hash table with linear probing, at most
// half full.
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

// find returns the slot of a key, or the empty slot for it.
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

// add reports false if the pair has a rank already.
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
