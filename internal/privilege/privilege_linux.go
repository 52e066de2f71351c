package privilege

import (
	"os"
	"runtime"
	"syscall"
	"testing"
)

// Drop drops the superuser's rights to files from the test's thread, until the test ends. Other users have none to drop.
func Drop(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	runtime.LockOSThread()
	if err := syscall.Setfsuid(65534); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // runs in the goroutine of the test, as it must
		syscall.Setfsuid(0)
		runtime.UnlockOSThread()
	})
}
