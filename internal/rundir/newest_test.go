package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A damaged checkpoint is skipped. One that cannot be read, for want of permissions, descriptors or a network, may be intact: it is not
// replaced by an older one.
func TestTheNewestCheckpointIsNotPassedOverUnseen(t *testing.T) {
	dir := t.TempDir()
	last, older := filepath.Join(dir, Checkpoints, Name(2)), filepath.Join(dir, Checkpoints, Name(1))
	require.NoError(t, errors.Join(os.MkdirAll(last, 0o755), os.MkdirAll(older, 0o755)))
	newest := func(bad ...string) func(error) (string, []error, error) {
		return func(with error) (string, []error, error) {
			return Newest(dir, func(checkpoint string) error {
				for _, b := range bad {
					if b == checkpoint {
						return with
					}
				}
				return nil
			})
		}
	}
	for _, no := range []syscall.Errno{syscall.EMFILE, syscall.EACCES, syscall.ENOMEM, syscall.ESTALE, syscall.ETIMEDOUT, syscall.ENOTCONN} {
		with := fmt.Errorf("checkpoint: %w", &fs.PathError{Op: "open", Path: "state.json", Err: no})
		found, refused, err := newest(last)(with)
		require.EqualError(t, err, with.Error()+"; that need not be damage: fix it and type the same command again, "+
			"or name an older one, such as "+
			older)
		require.ErrorIs(t, err, no)
		require.Empty(t, found)
		require.Empty(t, refused)
		_, _, err = newest(older, last)(with)
		require.ErrorContains(t, err, "type the same command again, or name")
		found, _, err = newest(older)(with)
		require.NoError(t, err)
		require.Equal(t, last, found)
	}
	for _, damage := range []error{errors.New("state.json is damaged"), &fs.PathError{Op: "open", Path: "state.json", Err: syscall.ENOENT},
		&fs.PathError{Op: "read", Path: "state.json", Err: syscall.EIO}} {
		found, refused, err := newest(last)(damage)
		require.NoError(t, err)
		require.Equal(t, older, found)
		require.Equal(t, []error{damage}, refused)
	}
}
