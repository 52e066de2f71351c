// Package cuda computes on an NVIDIA card: the contract of package kernels, by kernels that lie beside it as PTX. How a card is
// reached, the driver, memory, streams and launches, is the affair of package driver.
//
// The package is real with the build tag gpu; without it, it says that the binary was built without the GPU backend. See
// docs/cuda.md.
package cuda
