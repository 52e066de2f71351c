package disk

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The observer sees all operations on files in order, and new folders are synced.
func TestTheObserverHearsEverything(t *testing.T) {
	dir := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	var heard []Op
	Observer = func(op Op) { heard = append(heard, op) }
	defer func() { Observer = nil }()
	require.NoError(t, MkdirAll(at("a", "b")))
	require.NoError(t, MkdirAll(at("a", "b")))
	f, err := Append(at("a", "b", "log"))
	require.NoError(t, err)
	_, err = f.Write([]byte("text"))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(2))
	require.NoError(t, f.Sync())
	size, err := f.Size()
	require.NoError(t, err)
	require.EqualValues(t, 2, size)
	require.NoError(t, f.Close())
	require.NoError(t, Rename(at("a", "b", "log"), at("a", "b", "old")))
	require.NoError(t, RemoveAll(at("a", "b")))
	require.NoError(t, RemoveAll(at("a", "b")), "removing a missing folder is no error")
	require.Error(t, Remove(at("a", "b")))
	require.Equal(t, []Op{
		{Kind: CreatedFolder, Path: at("a")}, {Kind: SyncedFolder, Path: dir},
		{Kind: CreatedFolder, Path: at("a", "b")}, {Kind: SyncedFolder, Path: at("a")},
		{Kind: CreatedFile, Path: at("a", "b", "log")}, {Kind: Wrote, Path: at("a", "b", "log"), Text: []byte("text")},
		{Kind: Truncated, Path: at("a", "b", "log"), Size: 2}, {Kind: Synced, Path: at("a", "b", "log")},
		{Kind: Renamed, Path: at("a", "b", "log"), To: at("a", "b", "old")},
		{Kind: Removed, Path: at("a", "b", "old")}, {Kind: Removed, Path: at("a", "b")},
	}, heard)
	require.NoError(t, MkdirAll(at("kept")))
	require.NoError(t, os.WriteFile(at("kept", "file"), nil, 0o644))
	require.NoError(t, os.WriteFile(at("file"), nil, 0o644))
	require.NoError(t, os.Symlink(at("kept"), at("a", "link")))
	require.NoError(t, RemoveAll(at("a")))
	require.NoDirExists(t, at("a"))
	require.FileExists(t, at("kept", "file"), "a link is not followed")
	require.Error(t, MkdirAll(at("file")))
	require.Error(t, MkdirAll(at("file", "below")))
}
