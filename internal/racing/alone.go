package racing

import "testing"

// Alone skips a test with a single goroutine under the race detector: it has no races, and would take ten times as long.
func Alone(t testing.TB) {
	t.Helper()
	if Detected {
		t.Skip("one goroutine: nothing to race with")
	}
}

// Again skips a test about the files of runs under the race detector, as other tests cover the same code.
func Again(t testing.TB) {
	t.Helper()
	if Detected {
		t.Skip("its runs are those of other tests: nothing new to race with")
	}
}
