// Package kernels is the contract between the numbers and the machine: opaque memory, and one fused
// operation for each step of a transformer, forward and backward. It knows neither models nor
// adapters nor files; kernels/cpu implements it in C, kernels/kerneltest says what is right. Checked
// holds the callers of every backend to it.
//
// # Reading the signatures
//
// Outputs come first, then inputs, then sizes. T is the number of rows (one row is one token of one
// sequence), K the width of an input, N the width of an output, H the hidden size, V the vocabulary.
// The shape of every operand stands beside it; rows lie one after the other.
//
// # The laws
//
//  1. Operations are queued. They run in the order of the calls, some time before Sync returns;
//     Download is the only way to see a result and synchronises first. One goroutine calls at a time. A wrong shape is
//     a bug of the caller and panics at the call, in the words of Checked; a failing machine is reported by the
//     next Sync.
//  2. Activations are written (=), gradients of parameters are accumulated (+=).
//  3. A row stands alone: what an operation writes for a row depends on that row and, in attention,
//     on the earlier rows of its own sequence; not on the number of rows, their order, or the number
//     of threads. Its gradient depends on the rows of its own tree: see Spans. Every sum is taken in one fixed
//     order that depends on how much it adds up and on the types of its operands alone; sums over rows (the
//     gradients of parameters) on the number of rows. Which order that is, each backend decides for itself and
//     names (Order): a chain of fused multiply-adds, or the tree of a tensor core. A processor leaves the choice to who
//     opens it: in series, or as its tile unit adds 32 inputs at a time (kernels/kerneltest/tiles is that in plain Go).
//  4. No operation allocates memory that the caller can see growing: scratch space is sized by the
//     largest call so far.
//  5. A buffer may be longer than an operation needs, and there may be no rows at all. What an operation
//     writes must not be what it reads, but where it says so. Everything it reads must be finite, keys
//     and values of later positions included: what is masked adds 0·v.
package kernels
