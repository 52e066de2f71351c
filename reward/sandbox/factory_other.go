//go:build !(linux && (amd64 || arm64))

package sandbox

import (
	"fmt"
	"os"
	"runtime"
)

// newWorkerFactory prepares a rung. This platform has only the lowest.
func newWorkerFactory(rung Rung, py *interpreter, preload string) (workerFactory, error) {
	if rung == RungUnsafe {
		return newProcesses(py, preload, os.TempDir(), func() {})
	}
	return nil, fmt.Errorf("not available on %s/%s", runtime.GOOS, runtime.GOARCH)
}

// processLimitAdvice knows only limits of Linux.
func processLimitAdvice() string { return "" }
