package atomicfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/disk"
)

// Errors name the file to be written, and never the temporary one.
func TestErrorsNameTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	none := filepath.Join(dir, "none", "a")
	require.EqualError(t, WriteBytes(none, nil), "write "+none+": no such file or directory")
	full := errors.New("no space left on device")
	for name, fill := range map[string]func(temporary string) error{
		"plain": func(string) error { return full },
		"of it": func(temporary string) error { return &fs.PathError{Op: "write", Path: temporary, Err: full} },
		"wrapped": func(temporary string) error {
			return fmt.Errorf("x: %w", &fs.PathError{Op: "write", Path: temporary, Err: full})
		},
		"one of several": func(temporary string) error {
			return errors.Join(nil, fmt.Errorf("x: %w", &fs.PathError{Op: "write", Path: temporary, Err: full}))
		},
	} {
		err := Write(path, func(io.Writer) error {
			found, err := filepath.Glob(filepath.Join(dir, ".a.*.tmp"))
			require.NoError(t, err)
			require.Len(t, found, 1)
			return fill(found[0])
		})
		require.ErrorIs(t, err, full, name)
		require.EqualError(t, err, "write "+path+": no space left on device", name)
	}
	other := &fs.PathError{Op: "read", Path: "b", Err: fs.ErrPermission}
	require.EqualError(t, Write(path, func(io.Writer) error { return other }), "write "+path+": read b: permission denied")
	both := errors.Join(full, context.Canceled)
	require.ErrorIs(t, Write(path, func(io.Writer) error { return both }), context.Canceled)
	require.Error(t, WriteJSON(path, func() {}))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, WriteBytes(path, []byte("as it was")))
	f, err := disk.CreateTemp(dir, ".a.*"+temporary)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.ErrorIs(t, write(path, f, func(io.Writer) error { panic("in whose mode?") }), fs.ErrClosed)
	require.NoFileExists(t, f.Name())
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o755))
	require.EqualError(t, WriteBytes(path, nil), "write "+path+": file exists")
}
