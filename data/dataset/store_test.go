package dataset

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// The store is built once, rebuilt when the file changes, and not used if it is damaged.
func TestStoreIsCachedAndChecked(t *testing.T) {
	cache, path := t.TempDir(), write(t, t.TempDir(), "a.jsonl", shapes[0].row)
	built := 0
	require.NoError(t, os.MkdirAll(filepath.Join(cache, ".set.making-12", "half"), 0o755)) // by a process that was killed
	opt := Options{CacheDir: cache, Progress: func(int64, int64) { built++ }}
	first := open(t, path, opt)
	require.Equal(t, 1, built)
	require.Equal(t, first.Dir(), open(t, path, opt).Dir())
	require.Equal(t, 1, built)

	write(t, filepath.Dir(path), "a.jsonl", shapes[3].row)
	second := open(t, path, opt)
	require.Equal(t, 2, built)
	require.NotEqual(t, first.Dir(), second.Dir())
	require.NotEmpty(t, second.manifest.Drift(first.Manifest()))

	index := filepath.Join(second.Dir(), indexName)
	text, err := os.ReadFile(index)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(index, bytes.Replace(text, []byte("Echo"), []byte("echo"), 1), 0o644))
	_, err = OpenStore(second.Dir())
	require.ErrorContains(t, err, "damaged")
	require.Equal(t, second.Manifest(), open(t, path, opt).Manifest())
	require.Equal(t, 3, built, "the damaged store was made anew")

	manifest := filepath.Join(second.Dir(), manifestName)
	text, err = os.ReadFile(manifest)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(manifest, bytes.Replace(text, []byte(`"problems": `), []byte(`"problems": -`), 1), 0o644))
	_, err = OpenStore(second.Dir())
	require.ErrorContains(t, err, "damaged")
	require.Equal(t, second.Manifest(), open(t, path, opt).Manifest())

	payload := filepath.Join(second.Dir(), payloadName)
	text, err = os.ReadFile(payload)
	require.NoError(t, err)
	text[5] ^= 1
	require.NoError(t, os.WriteFile(payload, text, 0o644))
	_, err = open(t, path, opt).Problems()[0].Tests(ctx)
	require.ErrorContains(t, err, "damaged")

	left, err := filepath.Glob(filepath.Join(cache, ".*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// A store must have the content of its fingerprint: if a file changes while it is read, there is an error.
func TestWrittenWhileItIsRead(t *testing.T) {
	cache, path := t.TempDir(), write(t, t.TempDir(), "a.jsonl", shapes[0].row)
	change := func(int64, int64) { write(t, filepath.Dir(path), "a.jsonl", shapes[3].row) }
	_, err := Open(ctx, path, Options{CacheDir: cache, Progress: change})
	require.True(t, badinput.Is(err), "%v", err)
	require.ErrorContains(t, err, "a.jsonl changed while it was read")
	left, err := os.ReadDir(cache)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Len(t, open(t, path, Options{CacheDir: cache}).Problems(), 1)
}

// Concurrent readers of sets leave the process's memory limit as it was before the first of them.
func TestLimitOfMemoryIsGivenBack(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	first := limitMemory()
	second := limitMemory()
	first()
	require.Less(t, debug.SetMemoryLimit(-1), before, "the limit stays while another set is read")
	second()
	require.Equal(t, before, debug.SetMemoryLimit(-1))
}

func TestCopyOutlivesItsSource(t *testing.T) {
	path, to := write(t, t.TempDir(), "mix.jsonl", allShapes()), filepath.Join(t.TempDir(), "dataset")
	set := open(t, path, Options{})
	require.NoError(t, set.CopyTo(ctx, to))
	require.NoError(t, set.CopyTo(ctx, to), "a second copy changes nothing")
	require.NoError(t, os.RemoveAll(set.Dir()))
	require.NoError(t, os.Remove(path))
	kept, err := OpenStore(to)
	require.NoError(t, err)
	defer kept.Close()
	require.Equal(t, set.Manifest(), kept.Manifest())
	_, err = kept.Problems()[1].Tests(ctx)
	require.NoError(t, err)

	other := open(t, write(t, t.TempDir(), "o.jsonl", shapes[0].row), Options{})
	require.ErrorContains(t, other.CopyTo(ctx, to), "another data set")
}

func TestCancelledBuildLeavesNothing(t *testing.T) {
	cancelled, cancel := context.WithCancel(ctx)
	cache, path := t.TempDir(), write(t, t.TempDir(), "a.jsonl", strings.Repeat(allShapes()+"\n", 50))
	_, err := Open(cancelled, path, Options{CacheDir: cache, Progress: func(int64, int64) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)
	left, err := os.ReadDir(cache)
	require.NoError(t, err)
	require.Empty(t, left)
}
