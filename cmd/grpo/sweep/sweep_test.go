package sweep

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// If the disk has no room for the journal of a sweep, or for its results, the error says how to continue.
func TestASweepWithoutRoom(t *testing.T) {
	f := &flags{dir: "my runs/s"}
	full := &fs.PathError{Op: "write", Path: "my runs/s/sweep.json", Err: syscall.ENOSPC}
	require.EqualError(t, f.unwritten(full), "write my runs/s/sweep.json: no space left on device; make room there, then type "+
		"grpo sweep --dir 'my runs/s' to resume")
	other := errors.New("all runs failed")
	require.Equal(t, other, f.unwritten(other))
	require.NoError(t, f.unwritten(nil))
}
