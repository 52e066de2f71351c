package kerneltest

import (
	"runtime/debug"
	"testing"

	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/testvariants"
)

// Operands are large and short-lived: letting the heap grow is cheaper than a garbage collection for each of them.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

// The reference always has one thread, so two numbers of threads are as good as four. Under the race detector its loops take
// minutes, and there is nothing to find.
func TestReference(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine")
	}
	RunDevice(t, Chains, testvariants.Limit(4, 1), NewReference)
}
