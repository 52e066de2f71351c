package trie

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// of is a sequence that nothing is learned from in the rows that others have, too.
func of(tokens ...int32) Sequence { return Sequence{Tokens: tokens, Mask: make([]bool, len(tokens))} }

// A subtree that fits into a batch, to its last row, is in one: a batch with room for some of it does not part it.
func TestASubtreeThatFitsIsInOneBatch(t *testing.T) {
	sequences := []Sequence{of(9), of(1, 2, 3), of(1, 2, 4)}
	require.Equal(t, []Deal{{0, 0, 0}, {1, 1, 0}, {2, 1, 2}}, new(Dealer).Deal(sequences, 4, true))
}

// Of the batches with room the first that has most of what a sequence begins with gets it.
func TestASequenceGoesWhereMostOfItIs(t *testing.T) {
	sequences := []Sequence{of(1, 7, 7, 7, 7), of(1, 2, 3, 3, 3, 3, 3), of(1, 2, 5, 5, 5, 5), of(1, 2, 4, 4)}
	require.Equal(t, []Deal{{0, 0, 0}, {1, 1, 0}, {2, 2, 0}, {3, 1, 2}}, new(Dealer).Deal(sequences, 9, true))
}

// Of two that have as much of it, that is the first.
func TestASequenceGoesToTheFirstOfTwo(t *testing.T) {
	sequences := []Sequence{of(1, 2, 3, 3, 3, 3, 3), of(1, 2, 5, 5, 5, 5), of(1, 2, 4, 4)}
	require.Equal(t, []Deal{{0, 0, 0}, {1, 1, 0}, {2, 0, 2}}, new(Dealer).Deal(sequences, 9, true))
}

// What is asked for every token takes a place more than its own rows: the last row that is shared has two targets.
func TestSequencesThatAreScoredTakeAPlaceMore(t *testing.T) {
	sequences := []Sequence{{Tokens: []int32{1, 2, 3}}, {Tokens: []int32{1, 2, 4}}}
	require.Equal(t, []Deal{{0, 0, 0}, {1, 0, 2}}, new(Dealer).Deal(sequences, 5, true))
	require.Equal(t, []Deal{{0, 0, 0}, {1, 1, 0}}, new(Dealer).Deal(sequences, 4, true))
}
