package rundir

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/seed-7879b91d/grpo/internal/disk"
)

// ErrTaken says that another process has the lock of a directory.
var ErrTaken = errors.New("another process has it")

// Lock locks a directory until what it gives is closed, or until this process ends in whatever way.
func Lock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if !disk.Lock(f) {
		return nil, errors.Join(ErrTaken, f.Close())
	}
	return f, nil
}

// Held tells whether a process trains in a directory, without touching its lock: who only looks must not be in the way of a
// process that begins. known is false where the kernel does not tell.
func Held(dir string) (held, known bool) {
	_, held, known = Holder(dir)
	return held, known
}

// Holder is Held, and the process that holds the directory; 0 where the kernel does not name it.
func Holder(dir string) (process int, held, known bool) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, false, false
	}
	at, ok := info.Sys().(*syscall.Stat_t)
	locks, err := os.ReadFile("/proc/locks")
	if !ok || err != nil {
		return 0, false, false
	}
	process, held = lockedIn(string(locks), at.Ino)
	return process, held, true
}

// lockedIn tells whether the kernel's list of locks has an exclusive one of whole files on an inode, and of which process. The device
// that it names is not that of stat on every file system, so the inode alone is compared.
func lockedIn(locks string, inode uint64) (process int, held bool) {
	for line := range strings.Lines(locks) {
		f := strings.Fields(line)
		if len(f) >= 6 && f[1] == "FLOCK" && f[3] == "WRITE" && strings.HasSuffix(f[5], fmt.Sprintf(":%d", inode)) {
			process, _ = strconv.Atoi(f[4]) // of another container it is 0 or -1
			return max(process, 0), true
		}
	}
	return 0, false
}
