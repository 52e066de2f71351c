// Package optim is the optimizer: Adam, gradient clipping by the global norm, and learning rate schedules.
// Parameters and gradients are two slabs of equal length in a backend's memory; the package does not
// know what is in them.
//
// The backward pass accumulates gradients, so they must be zeroed between steps. Step does not touch
// them, so that callers can look at them afterwards; ZeroGrad zeroes them. A model.Policy reads copies of its parameters, which its
// Publish renews: a loop is ZeroGrad, Accumulate, Step, Publish.
//
// An input error, as comments here call it, is one that the caller can mend. errors.As finds it as an interface{ BadInput() bool }.
package optim
