package disk

import (
	"os"
	"syscall"
)

// flock is the system's.
var flock = syscall.Flock

// Lock takes the lock of an open file or folder, which lasts until that is closed, or the process is gone in whatever way; false where
// somebody else has it. A file system that knows no locks has to do without.
func Lock(f *os.File) (taken bool) {
	err := flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	for err == syscall.EINTR { // of one over a network
		err = flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	return err != syscall.EWOULDBLOCK
}
