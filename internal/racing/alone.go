package racing

import "testing"

// Alone skips a test of one goroutine, which has nothing to race with and would take ten times as long to say so.
func Alone(t testing.TB) {
	t.Helper()
	if Detected {
		t.Skip("one goroutine: nothing to race with")
	}
}
