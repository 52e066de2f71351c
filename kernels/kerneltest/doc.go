// Package kerneltest says what is right for a kernels.Backend.
//
// NewReference is the specification, kerneltest/oracle: every operation as its formula, in plain Go and double precision.
// Run is the conformance suite that every backend passes, kerneltest/misuse its part about wrong calls;
// kerneltest/deferred makes a backend as opaque and as late as a device. The package knows neither models
// nor how a backend is built.
package kerneltest

import (
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/oracle"
)

// NewReference is the oracle.
func NewReference() kernels.Backend { return oracle.New() }
