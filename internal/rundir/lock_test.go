package rundir

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHeld(t *testing.T) {
	dir := t.TempDir()
	if _, err := os.Stat("/proc/locks"); err != nil {
		t.Skip("this kernel does not tell of locks")
	}
	held, known := Locked(dir)
	require.True(t, known)
	require.False(t, held)
	d, err := Claim(dir)
	require.NoError(t, err)
	process, held, known := LockHolder(dir)
	require.True(t, known)
	require.True(t, held)
	require.Contains(t, []int{0, os.Getpid()}, process)
	_, err = Lock(dir)
	require.ErrorIs(t, err, ErrTaken)
	require.NoError(t, d.Close())
	held, _ = Locked(dir)
	require.False(t, held)
	held, known = Locked(dir + "/none")
	require.False(t, held || known)
}

func TestLocksOfTheKernel(t *testing.T) {
	const locks = "1: POSIX  ADVISORY  WRITE 12 08:02:17 0 EOF\n2: FLOCK  ADVISORY  WRITE 13 08:02:170 0 EOF\n" +
		"2: -> FLOCK  ADVISORY  WRITE 14 08:02:171 0 EOF\n3: FLOCK  ADVISORY  READ 13 08:02:18 0 EOF\n"
	for inode, want := range map[uint64]int{17: 0, 170: 13, 171: 0, 18: 0, 70: 0} {
		process, held := lockedIn(locks, inode)
		require.Equal(t, want, process, inode)
		require.Equal(t, want != 0, held, inode)
	}
	process, held := lockedIn("1: FLOCK  ADVISORY  WRITE -1 08:02:17 0 EOF\n", 17)
	require.True(t, held)
	require.Zero(t, process)
}
