package watch

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// A folder that may not be looked into is told of: waiting for runs there would be for good.
func TestAFolderOfSomebodyElse(t *testing.T) {
	locked := filepath.Join(t.TempDir(), "locked")
	require.NoError(t, os.Mkdir(locked, 0o000))
	defer os.Chmod(locked, 0o700)
	if os.Geteuid() == 0 { // who may look everywhere, but for this thread
		require.NoError(t, os.Chmod(filepath.Dir(locked), 0o711))
		require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(locked)), 0o711))
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		_, err := unix.SetfsuidRetUid(65534)
		require.NoError(t, err)
		defer unix.SetfsuidRetUid(0)
	}
	_, err := find([]string{locked})
	require.EqualError(t, err, locked+": this user may not look there; have it given to you, or leave it out")
	require.True(t, badinput.Is(err))
}
