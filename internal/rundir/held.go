package rundir

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Held tells whether a process trains in a directory, without touching its lock: who only looks must not be in the way of a
// process that begins. known is false where the kernel does not tell.
func Held(dir string) (held, known bool) {
	info, err := os.Stat(dir)
	if err != nil {
		return false, err == nil
	}
	at, ok := info.Sys().(*syscall.Stat_t)
	locks, err := os.ReadFile("/proc/locks")
	if !ok || err != nil {
		return false, false
	}
	return lockedIn(string(locks), at.Ino), true
}

// lockedIn tells whether the kernel's list of locks has an exclusive one of whole files on an inode. The device that it names is not
// that of stat on every file system, so the inode alone is compared.
func lockedIn(locks string, inode uint64) bool {
	for line := range strings.Lines(locks) {
		f := strings.Fields(line)
		if len(f) >= 6 && f[1] == "FLOCK" && f[3] == "WRITE" && strings.HasSuffix(f[5], fmt.Sprintf(":%d", inode)) {
			return true
		}
	}
	return false
}
