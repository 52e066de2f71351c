// Package backendtest runs a test on every backend that is available without a device.
package backendtest

import (
	"testing"

	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/testvariants"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/deferred"
)

// OnAll runs the test on the reference, on the CPU, and on a backend that is as opaque and asynchronous as a device.
// Under the race detector the reference is skipped: its loops have no races, and take ten times as long.
func OnAll(t *testing.T, test func(t *testing.T, b kernels.Backend)) {
	for name, open := range map[string]func(*testing.T) kernels.Backend{
		"reference":    func(*testing.T) kernels.Backend { return kerneltest.NewReference() },
		"cpu":          func(t *testing.T) kernels.Backend { return CPU(t, cpu.Options{}) },
		"cpu deferred": func(t *testing.T) kernels.Backend { return deferred.New(CPU(t, cpu.Options{})) },
	} {
		if name == "reference" && race.Enabled {
			continue
		}
		t.Run(name, func(t *testing.T) { On(t, open(t), test) })
	}
}

// OnEach is OnAll for tests that check each backend by itself. It usually skips the reference, whose loops take most of the time.
func OnEach(t *testing.T, test func(t *testing.T, b kernels.Backend)) {
	OnAll(t, func(t *testing.T, b kernels.Backend) {
		if b.Order() == kerneltest.NewReference().Order() && !testvariants.Exhaustive {
			t.Skip("the reference is taken with GRPO_FORMS=all")
		}
		test(t, b)
	})
}

// On runs the test on a backend and closes that.
func On(t *testing.T, b kernels.Backend, test func(t *testing.T, b kernels.Backend)) {
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	test(t, b)
}

// CPU opens a CPU backend, which the caller closes. By default it has one thread: the models of tests are so small that
// more threads would mostly wait, and take cores from tests in parallel.
func CPU(t testing.TB, o cpu.Options) kernels.Backend {
	t.Helper()
	o.Threads = max(o.Threads, 1)
	b, err := cpu.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
