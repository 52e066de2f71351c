package cputime

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Working counts, and waiting does not.
func TestUsed(t *testing.T) {
	before := Used()
	time.Sleep(300 * time.Millisecond)
	require.Less(t, Used()-before, 100*time.Millisecond)
	before = Used()
	for x := uint64(1); Used()-before < 50*time.Millisecond; x = x*x + 1 { // ends only if it counts
	}
}

// The work of this thread counts, and that of others does not.
func TestThread(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nothing tells")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began, of := Thread(), Used()
	done := make(chan bool)
	go func() {
		for x := uint64(1); Used()-of < 50*time.Millisecond; x = x*x + 1 {
		}
		close(done)
	}()
	<-done
	require.Less(t, Thread()-began, 25*time.Millisecond)
	for x := uint64(1); Thread()-began < 25*time.Millisecond; x = x*x + 1 { // ends only if it counts
	}
}
