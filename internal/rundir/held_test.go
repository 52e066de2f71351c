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
	held, known := Held(dir)
	require.True(t, known)
	require.False(t, held)
	d, err := Claim(dir)
	require.NoError(t, err)
	held, known = Held(dir)
	require.True(t, known)
	require.True(t, held)
	require.NoError(t, d.Close())
	held, _ = Held(dir)
	require.False(t, held)
	held, known = Held(dir + "/none")
	require.False(t, held || known)
}

func TestLocksOfTheKernel(t *testing.T) {
	const locks = "1: POSIX  ADVISORY  WRITE 12 08:02:17 0 EOF\n2: FLOCK  ADVISORY  WRITE 13 08:02:170 0 EOF\n" +
		"2: -> FLOCK  ADVISORY  WRITE 14 08:02:171 0 EOF\n3: FLOCK  ADVISORY  READ 13 08:02:18 0 EOF\n"
	for inode, want := range map[uint64]bool{17: false, 170: true, 171: false, 18: false, 70: false} {
		require.Equal(t, want, lockedIn(locks, inode), inode)
	}
}
