package gguf

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
)

// The rows of a head are in llama.cpp's order, with the halves interleaved. A round trip alone would not show that.
func TestTheOrderOfRows(t *testing.T) {
	var rows []int
	for r := range 16 {
		rows = append(rows, tensorChange{heads: 2, width: 8}.row(r))
	}
	require.Equal(t, []int{0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15}, rows)

	bias := make([]byte, 8) // of one head
	tensorfile.Narrow(bias, kernels.EncodedBF16, []float64{1, 2, 3, 4})
	var out bytes.Buffer
	from := tensorfile.Tensor{Encoding: kernels.EncodedBF16, Shape: []int{4}, Bytes: bias}
	require.NoError(t, tensorChange{heads: 1, width: 4}.write(&out, from, F32))
	written := make([]float32, 4)
	F32.decode(written, out.Bytes())
	require.Equal(t, []float32{1, 3, 2, 4}, written)
}

// In a 4-bit file the embedding and the head have 8 bits, vectors are f32, and rows that are no multiple of a block are f16.
func TestTypesThatFit(t *testing.T) {
	require.Equal(t, Q8, Q4.forTensor(embedding, []int{8, 64}))
	require.Equal(t, Q8, Q4.forTensor(head, []int{8, 64}))
	require.Equal(t, Q4, Q4.forTensor("blk.0.attn_q.weight", []int{8, 64}))
	require.Equal(t, F16, Q4.forTensor("blk.0.attn_q.weight", []int{8, 48}))
	require.Equal(t, F32, Q8.forTensor("blk.0.attn_norm.weight", []int{64}))
}
