// Package kerneltest says what is right for a kernels.Backend.
//
// NewReference is the specification: every operation as its formula, in plain Go and double precision.
// NewDeferred makes any backend as opaque and as late as a device: whoever peeks into its memory, or
// counts on an operation being done before it was waited for, fails on it. Run is the conformance
// suite that every backend passes, kerneltest/misuse its part about wrong calls. The package knows
// neither models nor how a backend is built.
package kerneltest
