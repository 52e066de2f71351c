package disk

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A lock belongs to one process, as long as its file is open. File systems without locks, as on some clusters, grant it to all.
func TestLock(t *testing.T) {
	open := func() *os.File {
		f, err := os.Open(t.TempDir() + "/..")
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	one, other := open(), open()
	require.True(t, Lock(one))
	require.False(t, Lock(other))
	require.NoError(t, one.Close())
	require.True(t, Lock(other))
	defer func() { flock = syscall.Flock }()
	for _, none := range []syscall.Errno{syscall.ENOSYS, syscall.ENOLCK, syscall.EOPNOTSUPP} {
		flock = func(int, int) error { return none }
		require.True(t, Lock(open()), none)
	}
	said := []error{syscall.EINTR, syscall.EINTR, syscall.EWOULDBLOCK}
	flock = func(int, int) (err error) {
		err, said = said[0], said[1:]
		return err
	}
	require.False(t, Lock(open()), "an interrupted call is repeated")
}
