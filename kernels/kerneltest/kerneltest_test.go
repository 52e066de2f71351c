package kerneltest

import (
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/deferred"
)

// The reference has one thread whatever it is asked for, so two of it are as good as four.
func TestReference(t *testing.T) {
	run(t, Chains, func(int) kernels.Backend { return NewReference() }, 1, 2)
}

func TestDeferredReference(t *testing.T) {
	run(t, Chains, func(int) kernels.Backend { return deferred.New(NewReference()) }, 1, 2)
}
