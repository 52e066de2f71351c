package sweep

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/cmd/grpo/bench"
	"github.com/seed-7879b91d/grpo/kernels/device"
)

// A directory whose name no setting may have is refused before a run fails for it.
func TestASweepInBytesThatAreNoText(t *testing.T) {
	cmd := Command(Program{Open: func(context.Context) bench.Opener { return device.Open }})
	cmd.SetArgs([]string{"seed=0,1", "--dir", filepath.Join(t.TempDir(), "s\xff"), "--dry-run"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	require.ErrorContains(t, cmd.Execute(), "--dir: found bytes that are not UTF-8")
}

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
