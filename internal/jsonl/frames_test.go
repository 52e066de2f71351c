package jsonl

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// frame packs lines with their frame's number, and long text that does not repeat.
func frame(t *testing.T, n, lines, size int) []byte {
	t.Helper()
	var out bytes.Buffer
	f, err := NewFrame(&out)
	require.NoError(t, err)
	lots := rand.New(rand.NewPCG(uint64(n), 5))
	for i := range lines {
		noise := make([]byte, size)
		for k := range noise {
			noise[k] = byte(lots.Uint32())
		}
		require.NoError(t, f.Append(map[string]any{"frame": n, "line": i, "noise": noise}))
	}
	require.NoError(t, f.Close())
	return out.Bytes()
}

func name(line []byte) string {
	end := bytes.Index(line, []byte(`,"noise"`))
	return string(line[:end])
}

func whole(path string) (names []string, err error) {
	err = EachComplete(path, func(line []byte) error {
		names = append(names, name(line))
		return nil
	})
	return names, err
}

func last(t *testing.T, path string) (names []string) {
	t.Helper()
	require.NoError(t, LastFrame(path, func(line []byte) { names = append(names, name(line)) }))
	return names
}

// Wherever a packed file is truncated, the lines before are read, and the last complete frame is found.
func TestPackedLinesAreReadAsFarAsTheyCame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.jsonl"+PackedSuffix)
	frames := [][]byte{frame(t, 0, 2, 100), frame(t, 1, 1, 100), frame(t, 2, 2, 100)}
	require.Equal(t, frames[2], frame(t, 2, 2, 100), "the same lines, the same bytes")
	text := bytes.Join(frames, nil)
	one, two := len(frames[0]), len(frames[0])+len(frames[1])
	all := []string{`{"frame":0,"line":0`, `{"frame":0,"line":1`, `{"frame":1,"line":0`, `{"frame":2,"line":0`, `{"frame":2,"line":1`}
	for end := 0; end <= len(text); end += 5 {
		if end+5 > len(text) {
			end = len(text)
		}
		require.NoError(t, os.WriteFile(path, text[:end], 0o644))
		got, err := whole(path)
		require.NoError(t, err, "%d bytes", end)
		least, lastOf := 0, all[:0]
		switch {
		case end == len(text):
			least, lastOf = 5, all[3:]
		case end >= two:
			least, lastOf = 3, all[2:3]
		case end >= one:
			least, lastOf = 2, all[:2]
		}
		require.GreaterOrEqual(t, len(got), least, "%d bytes", end)
		require.Equal(t, all[:len(got)], append([]string{}, got...), "%d bytes", end)
		require.Equal(t, append([]string{}, lastOf...), append([]string{}, last(t, path)...), "%d bytes", end)
	}
}

// The last frame is found even if it is longer than the first read, and contains the magic bytes of a frame.
func TestTheLastFrameIsFoundFromBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.jsonl"+PackedSuffix)
	long := frame(t, 7, 600, 3000)
	require.Greater(t, len(long), 1<<20)
	require.NoError(t, os.WriteFile(path, append(frame(t, 6, 1, 3000), long...), 0o644))
	require.Len(t, last(t, path), 600)

	var out bytes.Buffer
	f, err := NewFrame(&out)
	require.NoError(t, err)
	_, err = f.enc.Write(append([]byte("x"+string(frameMagic)+fmt.Sprint(rand.Perm(99))), '\n')) // incompressible
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Contains(t, out.String()[1:], string(frameMagic))
	n := 0
	require.NoError(t, os.WriteFile(path, append(long, out.Bytes()...), 0o644))
	require.NoError(t, LastFrame(path, func(line []byte) { n++; require.Equal(t, byte('x'), line[0]) }))
	require.Equal(t, 1, n)
}

func TestDamageInsideIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.jsonl"+PackedSuffix)
	text := append(frame(t, 0, 3, 3000), frame(t, 1, 3, 3000)...)
	text[len(text)/4] ^= 1
	require.NoError(t, os.WriteFile(path, text, 0o644))
	_, err := whole(path)
	require.ErrorContains(t, err, path+": damaged: ")
	require.True(t, badinput.Is(err))
	require.Equal(t, []string{`{"frame":1,"line":0`, `{"frame":1,"line":1`, `{"frame":1,"line":2`}, last(t, path), "which is another frame")

	require.NoError(t, os.WriteFile(path, append(frame(t, 0, 1, 100), make([]byte, 40)...), 0o644))
	got, err := whole(path)
	require.ErrorContains(t, err, "damaged", "zeros, as a power cut leaves them, are no lines")
	require.Len(t, got, 1)

	_, err = whole(filepath.Join(t.TempDir(), "none"+PackedSuffix))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.True(t, badinput.Is(err))
}
