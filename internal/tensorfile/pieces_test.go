package tensorfile

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Reading a file in pieces gives the tensors and the errors of a mapped file.
func TestPiecesAreTheTensors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.safetensors")
	values := make([]float32, 1000)
	for i := range values {
		values[i] = float32(i) / 7
	}
	require.NoError(t, Write(path, []Source{FromFloat32s("x", values, 1000), FromFloat32s("y", values[:7], 7)}, map[string]string{"a": "b"}))
	whole, err := Open(path)
	require.NoError(t, err)
	defer whole.Close()
	p, err := OpenPieces(path)
	require.NoError(t, err)
	defer p.Close()
	require.Equal(t, whole.Metadata(), p.Metadata())
	for _, name := range []string{"x", "y"} {
		want, err := whole.Tensor(name)
		require.NoError(t, err)
		for _, most := range []int{1, 300, 1000, 5000} {
			var all []byte
			require.NoError(t, p.Each(name, most, func(from int, part Tensor) error {
				require.Equal(t, len(all)/4, from)
				require.LessOrEqual(t, part.Len(), most)
				all = append(all, part.Bytes...)
				return nil
			}, want.Shape...))
			require.True(t, bytes.Equal(want.Bytes, all))
		}
	}
	for name, shape := range map[string][]int{"z": nil, "x": {999}} {
		_, want := whole.Tensor(name, shape...)
		require.Error(t, want)
		require.EqualError(t, p.Each(name, 1, nil, shape...), want.Error())
		require.EqualError(t, p.Check(name, shape...), want.Error())
	}
	saved, err := os.ReadFile(path)
	require.NoError(t, err)
	for name, text := range map[string]string{"none": "", "short": string(saved[:len(saved)-1]), "seven": "1234567",
		"head": string(saved[:40]), "long": "\xff\xff\xff\xff\xff\xff\xff\xff{}"} {
		at := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(at, []byte(text), 0o644))
		_, want := Open(at)
		_, err := OpenPieces(at)
		require.EqualError(t, err, want.Error())
		require.True(t, badinput.Is(err))
	}
	_, err = OpenPieces(filepath.Join(dir, "nowhere"))
	require.ErrorContains(t, err, "there is no such file")
	_, err = OpenPieces(dir)
	require.ErrorContains(t, err, "it is a folder, expected a file")

	require.NoError(t, os.Truncate(path, int64(p.file.size)+4)) // meanwhile: what is gone is not read as before
	require.True(t, badinput.Is(p.Each("x", 1000, func(int, Tensor) error { return nil }, 1000)))
}
