// Package cuda implements package kernels on an NVIDIA card, by the kernels in ptx. Package driver provides access to the card:
// the driver, memory, streams and launches.
//
// The backend needs the build tag gpu; without it, the package only reports that the binary was built without the GPU backend.
// See docs/cuda.md.
package cuda
