// Package driver gives access to NVIDIA cards: the driver, its cards, memory, copies, streams, events, modules and launches,
// through gorgonia.org/cu. It knows nothing of operations, models or tensors; package cuda builds on it.
//
// # Build without toolkit and driver
//
// The package needs the build tag gpu; without it, it needs no C and only reports that the binary was built without the GPU
// backend. With the tag it compiles and links on a machine that has neither the CUDA toolkit nor the driver: cu compiles
// against the header in ../include, its -lcuda finds the empty archive in lib/, and loader.c defines the functions of the
// driver, which jump to the driver once Probe or Open has loaded it. The driver is not loaded before that, so a binary
// with the GPU backend starts anywhere, and commands that need no card (--help, the programs of a sandbox) never
// initialise one. GRPO_CUDA_LIB names a library to use instead of libcuda.so.1, such as an emulated card.
//
// Only the environment variable CGO_CFLAGS can tell cu where the header is. `make build` sets it, and so does
// internal/rebuild for `go run`. See docs/cuda.md.
//
// # Threads
//
// A context is current for an OS thread, and goroutines move between threads. So each call makes the context current, unless
// it is already for its thread; a Device may be used by several goroutines at once. Work in one stream is done in order; between
// streams, only an Event imposes an order.
//
// # Errors
//
// A driver or card that cannot be used is an *Unusable, with a reason from a closed set and advice. A call that the driver
// refuses is an *Error. After an unrecoverable error (a kernel that failed, a card that fell off the bus) every call returns
// ErrLost with the first error: only a new process can use the card.
package driver
