// Package conformance holds the kernels of the GPU backend against the contract, on the emulated device. It has tests only, in a
// process of their own, since a process opens one driver.
package conformance
