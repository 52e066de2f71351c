// Package backendtest runs a test on every backend that a machine without a device has.
package backendtest

import (
	"testing"

	"github.com/seed-7879b91d/grpo/internal/racing"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/deferred"
)

// OnAll is OnProcessor, and runs the test on the reference. The race detector has nothing to find there, in loops over
// numbers, and slows it down tenfold.
func OnAll(t *testing.T, test func(t *testing.T, b kernels.Backend)) {
	OnProcessor(t, test)
	if !racing.Detected {
		t.Run("reference", func(t *testing.T) { On(t, kerneltest.NewReference(), test) })
	}
}

// OnProcessor runs the test on the processor, and on a backend that is as opaque and as late as a device.
func OnProcessor(t *testing.T, test func(t *testing.T, b kernels.Backend)) {
	t.Run("cpu", func(t *testing.T) { On(t, CPU(t, cpu.Options{}), test) })
	t.Run("cpu deferred", func(t *testing.T) { On(t, deferred.New(CPU(t, cpu.Options{})), test) })
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

// CPU opens a backend on the processor, which the caller closes. Where a test does not ask for several threads it has
// one: the models of tests are so small that the others would mostly wait, and take their core from the test beside.
func CPU(t testing.TB, o cpu.Options) kernels.Backend {
	t.Helper()
	o.Threads = max(o.Threads, 1)
	b, err := cpu.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
