// Package kerneltest is the conformance test of kernels.Backend.
//
// NewReference is the specification, kerneltest/oracle: every operation as its formula, in plain Go and double precision.
// Run is the suite that every backend must pass, and kerneltest/misuse its part about wrong calls;
// kerneltest/deferred makes a backend opaque and asynchronous like a device. The package knows neither models
// nor how a backend works.
package kerneltest

import (
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/oracle"
)

// NewReference is the oracle.
func NewReference() kernels.Backend { return oracle.New() }
