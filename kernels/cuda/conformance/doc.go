// Package conformance tests the kernels of the GPU backend against the contract, on the emulated device. It has only tests, in a process
// of their own, since a process opens one driver.
package conformance
