// Package process tells of the process that it is in. It knows nothing of what that is for.
package process

import (
	"runtime"
	"syscall"
)

// PeakMemory is the most memory that the process had, in GB.
func PeakMemory() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	unit := 1024.0
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	return float64(u.Maxrss) * unit / 1e9
}
