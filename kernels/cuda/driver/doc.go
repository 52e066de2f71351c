// Package driver is the way to an NVIDIA card: the driver, its cards, memory, copies, streams, events, modules and launches,
// through gorgonia.org/cu. It knows nothing of operations, models or tensors; the kernels stand upon it.
//
// # No toolkit, and no driver either
//
// The package is real with the build tag gpu; without it, it needs no C and says that the binary was built without the
// GPU backend. With the tag it compiles and links on a machine that has neither CUDA's toolkit nor its driver: cu
// compiles against the header in ../include, its -lcuda finds the empty archive in lib/, and the functions of the driver
// are those of loader.c, which jump to where the driver is once Probe or Open has found it. Nothing touches the driver
// before, so a binary with the GPU backend starts anywhere, and what has no business with a card (--help, the programs
// of a sandbox) never wakes one. GRPO_CUDA_LIB names another library than libcuda.so.1, such as an emulated card.
//
// cgo has no way to tell cu where the header is, but for the environment: CGO_CFLAGS. `make build` sets it, and
// internal/rebuild for who types `go run`. See docs/cuda.md.
//
// # Threads
//
// A context is current on a thread of the system, and a goroutine moves between those. So each call sees to it that its
// thread has the context, which a thread remembers; a Device may be used by several goroutines at once. What is queued on a
// stream is done in order, what is queued on two is not, unless an Event says so.
//
// # Errors
//
// What cannot be used is an *Unusable, which says why in a closed set of reasons, and what to type. What the driver
// refuses is an *Error. After an error that no call can mend (a kernel that went wrong, a card that fell off the bus) each
// call answers ErrLost, with the first error: the process must begin anew.
package driver
