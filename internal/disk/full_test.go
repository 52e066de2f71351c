package disk

import (
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatToDoAboutADisk(t *testing.T) {
	for why, want := range map[syscall.Errno]string{
		syscall.ENOSPC: "make room there", syscall.EDQUOT: "make room there", syscall.EROFS: "fix that",
		syscall.EFBIG: "let files be larger (ulimit -f)",
	} {
		err := fmt.Errorf("log: %w", &fs.PathError{Op: "write", Path: "a", Err: why})
		require.Equal(t, want, Remedy(err))
	}
}
