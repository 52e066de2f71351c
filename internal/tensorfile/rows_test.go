package tensorfile

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Rows are rounded like numbers written to a file, in any number of pieces.
func TestRowsInBF16(t *testing.T) {
	const rows, cols = 1030, 1500 // more than one piece, and a partial last one
	text, exact := make([]byte, 0, 4*rows*cols), make([]float64, rows*cols)
	for i := range exact {
		x := float32(math.Sin(float64(i))) * float32(math.Ldexp(1, i%60-30))
		text, exact[i] = binary.LittleEndian.AppendUint32(text, math.Float32bits(x)), float64(x)
	}
	want := make([]byte, 2*rows*cols)
	Narrow(want, kernels.EncodedBF16, exact)
	var got []byte
	pieces := 0
	for first, some := range RowsInBF16(kernels.HostRows{Encoding: kernels.EncodedF32, Bytes: text}, cols) {
		require.Equal(t, kernels.EncodedBF16, some.Encoding)
		require.Equal(t, 2*cols*first, len(got))
		got = append(got, some.Bytes...)
		pieces++
	}
	require.Equal(t, 2, pieces)
	require.True(t, bytes.Equal(want, got))
	for first, all := range RowsInBF16(kernels.HostRows{Encoding: kernels.EncodedBF16, Bytes: want}, cols) {
		require.Zero(t, first)
		require.True(t, &all.Bytes[0] == &want[0], "bf16 rows are not copied")
	}
}
