package disk

import (
	"os"
	"syscall"
)

// flock can be replaced in tests.
var flock = syscall.Flock

// Lock locks an open file or folder until it is closed, or the process ends; false if it is locked already. On a file system without
// locks it returns true.
func Lock(f *os.File) (taken bool) {
	err := flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	for err == syscall.EINTR { // possible on a network file system
		err = flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	return err != syscall.EWOULDBLOCK
}
