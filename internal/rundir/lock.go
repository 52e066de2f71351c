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

// ErrTaken is the error of a directory that another process has locked.
var ErrTaken = errors.New("another process has it")

// Lock locks a directory until the returned file is closed, or this process ends.
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

// Locked reports whether a process has locked a run directory. It reads the kernel's list of locks instead of trying the
// lock, so as not to get in the way of a process that starts. known is false if the kernel does not tell.
func Locked(dir string) (held, known bool) {
	_, held, known = LockHolder(dir)
	return held, known
}

// LockHolder is Locked, with the ID of the process; 0 if the kernel does not tell it.
func LockHolder(dir string) (process int, held, known bool) {
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

// lockedIn reports whether the kernel's list has an exclusive flock on an inode, and by which process. Only the inode is compared: on
// some file systems the device number in the list is not that of stat.
func lockedIn(locks string, inode uint64) (process int, held bool) {
	for line := range strings.Lines(locks) {
		f := strings.Fields(line)
		if len(f) >= 6 && f[1] == "FLOCK" && f[3] == "WRITE" && strings.HasSuffix(f[5], fmt.Sprintf(":%d", inode)) {
			process, _ = strconv.Atoi(f[4]) // 0 or -1 for a process of another container
			return max(process, 0), true
		}
	}
	return 0, false
}
