package kerneltest

import (
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

func TestReference(t *testing.T) {
	Run(t, func(int) kernels.Backend { return NewReference() })
}

func TestDeferredReference(t *testing.T) {
	Run(t, func(int) kernels.Backend { return NewDeferred(NewReference()) })
}
