package gguf

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The rows of a head are in the order that llama.cpp reads: its halves interleaved. Writing and reading back alone would not tell.
func TestTheOrderOfRows(t *testing.T) {
	var rows []int
	for r := range 16 {
		rows = append(rows, change{heads: 2, width: 8}.row(r))
	}
	require.Equal(t, []int{0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15}, rows)
}

// In four bits the embedding and the head have eight, vectors are exact, and what is not made of blocks is in f16.
func TestTypesThatFit(t *testing.T) {
	require.Equal(t, Q8, Q4.fitting(embedding, []int{8, 64}))
	require.Equal(t, Q8, Q4.fitting(head, []int{8, 64}))
	require.Equal(t, Q4, Q4.fitting("blk.0.attn_q.weight", []int{8, 64}))
	require.Equal(t, F16, Q4.fitting("blk.0.attn_q.weight", []int{8, 48}))
	require.Equal(t, F32, Q8.fitting("blk.0.attn_norm.weight", []int{64}))
}
