package race

import "testing"

// SkipSerial skips a test with a single goroutine under the race detector: it has no races, and would take ten times as long.
func SkipSerial(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("one goroutine: nothing to race with")
	}
}

// SkipCovered skips a test about the files of runs under the race detector, as other tests cover the same code.
func SkipCovered(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("its runs are those of other tests: nothing new to race with")
	}
}
