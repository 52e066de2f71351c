package export

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// A run of somebody else, whose folder may not be looked into, is not told of as none.
func TestARunOfSomebodyElse(t *testing.T) {
	dir := recorded(t)
	require.NoError(t, os.Chmod(dir, 0o000))
	defer os.Chmod(dir, 0o700)
	if os.Geteuid() == 0 { // who may look everywhere, but for this thread
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		_, err := unix.SetfsuidRetUid(65534)
		require.NoError(t, err)
		defer unix.SetfsuidRetUid(0)
	}
	_, err := exported(t, "csv", dir)
	require.EqualError(t, err, dir+": this user may not look there; have the run given to you, or choose another")
	require.True(t, badinput.Is(err))
}
