//go:build linux && (amd64 || arm64)

package jail

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// The limits that every program gets.
const (
	openFiles      = 256
	pendingSignals = 64
)

// LowLimit names a hard limit of this process that is below what a program is to get, and says how to raise it; "" if there is none.
// The arguments are the processor time, the file size and the address space of a program.
func LowLimit(seconds, bytes, space int64) string {
	for _, l := range []struct {
		resource int
		gets     int64
		what     string
		unit     int64 // of ulimit
		flag     string
	}{
		{unix.RLIMIT_NOFILE, openFiles, "open files", 1, "n"},
		{unix.RLIMIT_SIGPENDING, pendingSignals, "pending signals", 1, "i"},
		{unix.RLIMIT_CPU, seconds, "seconds of processor time", 1, "t"},
		{unix.RLIMIT_FSIZE, bytes, "KiB in a file", 1 << 10, "f"},
		{unix.RLIMIT_AS, space, "KiB of address space", 1 << 10, "v"},
	} {
		var may unix.Rlimit
		if err := unix.Prlimit(0, l.resource, nil, &may); err != nil || may.Max >= uint64(l.gets) {
			continue
		}
		gets := (l.gets + l.unit - 1) / l.unit
		return fmt.Sprintf("a program gets %d %s, but no process here may have more than %d: raise ulimit -H%s to %d or more where it is "+
			"set (limits.conf, the login, --ulimit of a container)", gets, l.what, may.Max/uint64(l.unit), l.flag, gets)
	}
	return ""
}
