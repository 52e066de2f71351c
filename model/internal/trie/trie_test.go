package trie

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// of is a sequence of which nothing is trained in the shared rows.
func of(tokens ...int32) Sequence { return Sequence{Tokens: tokens, Mask: make([]bool, len(tokens))} }

// A subtree that just fits into a batch is in one batch: a batch with room for a part of it does not split it.
func TestASubtreeThatFitsIsInOneBatch(t *testing.T) {
	sequences := []Sequence{of(9), of(1, 2, 3), of(1, 2, 4)}
	require.Equal(t, []Deal{{0, 0, 0}, {1, 1, 0}, {2, 1, 2}}, new(Dealer).Deal(sequences, 4, true))
}

// Of the batches with room, the first one with the longest shared prefix gets a sequence.
func TestASequenceGoesWhereMostOfItIs(t *testing.T) {
	sequences := []Sequence{of(1, 7, 7, 7, 7), of(1, 2, 3, 3, 3, 3, 3), of(1, 2, 5, 5, 5, 5), of(1, 2, 4, 4)}
	require.Equal(t, []Deal{{0, 0, 0}, {1, 1, 0}, {2, 2, 0}, {3, 1, 2}}, new(Dealer).Deal(sequences, 9, true))
}

// Of two with equally long prefixes, that is the first.
func TestASequenceGoesToTheFirstOfTwo(t *testing.T) {
	sequences := []Sequence{of(1, 2, 3, 3, 3, 3, 3), of(1, 2, 5, 5, 5, 5), of(1, 2, 4, 4)}
	require.Equal(t, []Deal{{0, 0, 0}, {1, 1, 0}, {2, 0, 2}}, new(Dealer).Deal(sequences, 9, true))
}

// Scoring all tokens of a sequence needs one more place than its own rows: the last shared row has two targets.
func TestSequencesThatAreScoredTakeAPlaceMore(t *testing.T) {
	sequences := []Sequence{{Tokens: []int32{1, 2, 3}}, {Tokens: []int32{1, 2, 4}}}
	require.Equal(t, []Deal{{0, 0, 0}, {1, 0, 2}}, new(Dealer).Deal(sequences, 5, true))
	require.Equal(t, []Deal{{0, 0, 0}, {1, 1, 0}}, new(Dealer).Deal(sequences, 4, true))
}
