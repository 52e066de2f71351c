package racing

import "testing"

// Alone skips a test of one goroutine, which has nothing to race with and would take ten times as long to say so.
func Alone(t testing.TB) {
	t.Helper()
	if Detected {
		t.Skip("one goroutine: nothing to race with")
	}
}

// Again skips a test of what runs leave on a disk, or find there: to the race detector they are the runs of other tests.
func Again(t testing.TB) {
	t.Helper()
	if Detected {
		t.Skip("its runs are those of other tests: nothing new to race with")
	}
}
