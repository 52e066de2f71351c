package nobody

import (
	"os"
	"runtime"
	"syscall"
	"testing"
)

// Here takes the superuser's rights to files from the thread of the test, until its end. Another user has none to lose.
func Here(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	runtime.LockOSThread()
	if err := syscall.Setfsuid(65534); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // in the goroutine of the test, as it has to be
		syscall.Setfsuid(0)
		runtime.UnlockOSThread()
	})
}
