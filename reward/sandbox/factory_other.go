//go:build !(linux && (amd64 || arm64))

package sandbox

import (
	"fmt"
	"os"
	"runtime"
)

// newKit prepares a rung; on this platform there is only the lowest.
func newKit(rung Rung, py *interpreter, preload string) (kit, error) {
	if rung == RungUnsafe {
		return newProcesses(py, preload, os.TempDir(), func() {})
	}
	return nil, fmt.Errorf("not available on %s/%s", runtime.GOOS, runtime.GOARCH)
}

// crowded looks at limits of Linux only.
func crowded() string { return "" }
