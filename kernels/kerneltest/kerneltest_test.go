package kerneltest

import (
	"runtime/debug"
	"testing"

	"github.com/seed-7879b91d/grpo/internal/racing"
)

// Operands are large and short-lived: a heap that may grow is cheaper than one that is looked through for each of them.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

// The reference has one thread whatever it is asked for, so two of it are as good as four. Under the race detector its loops
// take minutes, and share nothing.
func TestReference(t *testing.T) {
	if racing.Detected {
		t.Skip("one goroutine")
	}
	RunDevice(t, Chains, 1, NewReference)
}
