// Package optim improves parameters by their gradients: Adam, clipping by the global norm, and learning
// rate schedules. Parameters and gradients are two slabs of equal length in a backend's memory; what
// stands in them, and who fills the gradients, the package does not know.
//
// Gradients are added up by whoever computes them, so they must be zeroed between steps. Step leaves
// them as they are, for those who want to look at them afterwards; ZeroGrad zeroes them.
//
// An input error, as comments here call it, is one that whoever called can mend. errors.As finds it as an interface{ BadInput() bool }.
package optim
