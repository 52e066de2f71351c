// Package kernels is the contract of a backend: opaque memory, and one fused operation for each step
// of a transformer, forward and backward. It knows neither models nor adapters nor files. kernels/cpu
// implements it in C, kernels/cuda on NVIDIA cards, and kernels/kerneltest in plain Go, as
// specification and test oracle. Checked validates every call, for all backends alike.
//
// # Reading the signatures
//
// Outputs come first, then inputs, then sizes. T is the number of rows (one row is one token of one
// sequence), K the width of an input, N the width of an output, H the hidden size, V the vocabulary.
// The shape of every operand stands beside it; rows lie one after the other.
//
// # The laws
//
//  1. Operations are queued. They run in the order of the calls, and are done when Sync returns. Results are
//     seen only by Fetch before a Sync, or by Download, which synchronises. One goroutine calls at a time. A wrong shape is
//     a bug of the caller: Checked panics at the call. A failure of the machine is returned by the
//     next Sync.
//  2. Activations are written (=), gradients of parameters are accumulated (+=).
//  3. Rows are independent (batch invariance): what an operation writes for a row depends on that row and, in
//     attention, on the earlier rows of its own sequence; not on the number of rows, their order, or the number
//     of threads. The gradient of a row depends on the rows of its own tree of sequences: see Spans. Every sum has
//     one fixed order, which depends only on its number of terms and the types of its operands (for the gradients
//     of parameters, which are sums over rows, on the number of rows). Each backend has its own order and names it
//     (Order): a chain of fused multiply-adds, or the tree of a tensor core. On a processor the caller chooses:
//     serial, or 32 inputs at a time as its tile unit (AMX) does (kernels/kerneltest/tiles is that in plain Go).
//  4. Scratch memory does not grow from call to call: it has the size of the largest call so far.
//  5. A buffer may be longer than an operation needs, and the number of rows may be 0. Outputs must not overlap
//     inputs unless the operation allows it. All inputs must be finite, even keys and values of later positions:
//     masked ones are multiplied by 0, not skipped.
package kernels
