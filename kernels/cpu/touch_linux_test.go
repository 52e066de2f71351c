package cpu

import (
	"os"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Every page of an allocation is resident before anything is written to it.
func TestMemoryIsTouchedAtOnce(t *testing.T) {
	b, err := newBackend(Options{Threads: 1})
	require.NoError(t, err)
	defer b.Close()
	x, err := b.Alloc(kernels.F32, 16<<20)
	require.NoError(t, err)
	there := make([]byte, 4*x.Len()/os.Getpagesize())
	_, _, errno := syscall.Syscall(syscall.SYS_MINCORE, uintptr(own(x).p), uintptr(4*x.Len()), uintptr(unsafe.Pointer(&there[0])))
	require.Zero(t, errno)
	for page, byte := range there {
		require.Equal(t, 1, int(byte&1), "page %d of %d", page, len(there))
	}
	runtime.KeepAlive(x)
}
