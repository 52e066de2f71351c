package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A journal is read up to its last whole record, or refused; what was read can be written and read again.
func FuzzJournal(f *testing.F) {
	one, err := encode(Record{Kind: "optim_step", Seq: 1, Sum: "x", Body: []byte("a\nb")})
	require.NoError(f, err)
	two, err := encode(Record{Kind: Done, Seq: 1, Status: "ok", Type: "t"})
	require.NoError(f, err)
	f.Add(append(one[:len(one):len(one)], two...))
	f.Add(append(two[:len(two):len(two)], one[:len(one)-2]...))
	f.Add(make([]byte, 40))
	f.Fuzz(func(t *testing.T, text []byte) {
		var again []byte
		whole, err := parse(text, func(r Record) {
			b, err := encode(r)
			require.NoError(t, err)
			again = append(again, b...)
		})
		require.LessOrEqual(t, whole, len(text))
		if err != nil {
			require.ErrorContains(t, err, "is damaged")
			return
		}
		rest, err := parse(again, func(Record) {})
		require.NoError(t, err)
		require.Equal(t, len(again), rest)
	})
}

// No name leads out of the store, and a path that is parsed is formatted alike.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"one", "..", "a/../../b", "s-1:train:0", "a\x00", "tinker://a/weights/b", ".lock", "ä", "a\\b",
		strings.Repeat("a", 200)} {
		f.Add(name)
	}
	dir := f.TempDir()
	s := &Store{dir: filepath.Join(dir, "store")}
	r := &Run{dir: filepath.Join(s.dir, "runs", "r")}
	require.NoError(f, os.MkdirAll(r.dir, 0o755))
	f.Fuzz(func(t *testing.T, name string) {
		if path, err := s.file("runs", name); err == nil {
			require.Equal(t, filepath.Join(s.dir, "runs"), filepath.Dir(path))
		}
		c, err := r.Find(Weights, name)
		require.Error(t, err)
		if c.Dir != "" {
			require.Equal(t, filepath.Join(r.dir, Weights), filepath.Dir(c.Dir))
		}
		if _, err := r.Find(name, "one"); name != Weights && name != Sampler {
			require.Error(t, err)
		}
		if run, kind, named, err := ParsePath(name); err == nil {
			require.Equal(t, name, Path(run, kind, named))
		}
		if CheckName("path", name) == nil {
			require.NotContains(t, name, "/")
			require.NotEqual(t, ".", name[:1])
		}
	})
}
