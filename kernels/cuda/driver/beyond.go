//go:build gpu

package driver

// Calls that cu lacks, and launches: cu takes five calls from Go to C for one. The Context, Function and Stream of cu are structs whose
// only field is the driver's handle, so a cast of the pointer gives the handle.

/*
#cgo noescape grpo_cuda_launch
#cgo nocallback grpo_cuda_launch
#cgo nocallback grpo_cuda_enter

#include <stdint.h>

#include "cuda.h"

// The number of the Device whose context is current for this thread; 0: none. It saves calls of cuCtxSetCurrent.
static __thread uint64_t entered;

static CUresult grpo_cuda_enter(CUcontext context, uint64_t device)
{
	if (entered == device)
		return CUDA_SUCCESS;
	CUresult answer = cuCtxSetCurrent(context);
	entered = answer ? 0 : device;
	return answer;
}

static CUresult grpo_cuda_forget(void)
{
	entered = 0;
	return cuCtxSetCurrent(NULL);
}

// Makes the context current and launches in one call from Go, so that a launch need not lock its goroutine to a thread. The driver copies
// the arguments before it returns.
static CUresult grpo_cuda_launch(CUcontext context, uint64_t device, CUfunction f, CUstream stream, const unsigned *grid,
	const unsigned *block, unsigned shared, uint64_t *arguments, int count)
{
	void *at[32]; // maxArgs
	CUresult answer = grpo_cuda_enter(context, device);
	if (answer)
		return answer;
	for (int i = 0; i < count; i++)
		at[i] = &arguments[i];
	return cuLaunchKernel(f, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, stream, at, NULL);
}

// Copies after the work queued in a stream, and waits: cuMemcpyDtoH uses the default stream, with which our streams do not synchronise. One
// call does both, because C may use Go's memory only until it returns.
static CUresult grpo_cuda_read(CUstream stream, void *to, CUdeviceptr from, size_t bytes)
{
	CUresult answer = cuMemcpyDtoHAsync(to, from, bytes, stream);
	return answer ? answer : cuStreamSynchronize(stream);
}
*/
import "C"

import (
	"unsafe"

	"gorgonia.org/cu"
)

// allocHost allocates pinned memory.
func allocHost(bytes int) (unsafe.Pointer, error) {
	var at unsafe.Pointer
	return at, asError(C.cuMemHostAlloc(&at, C.size_t(bytes), 0))
}

// allowShared raises the dynamic shared memory that a function may be launched with; above 48 KiB the driver requires it.
func allowShared(f cu.Function, bytes int) error {
	return asError(C.cuFuncSetAttribute(*(*C.CUfunction)(unsafe.Pointer(&f)), C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(bytes)))
}

// enterContext makes a context current for this thread, unless it is already; device is the number of the Device that it belongs to.
func enterContext(c cu.CUContext, device uint64) error {
	return asError(C.grpo_cuda_enter(*(*C.CUcontext)(unsafe.Pointer(&c)), C.uint64_t(device)))
}

// forgetContext leaves this thread without a context.
func forgetContext() { C.grpo_cuda_forget() }

// launch queues a kernel in the context of a device.
func launch(d *Device, f cu.Function, s cu.Stream, grid, block *[3]uint32, shared int, args []Arg) error {
	return asError(C.grpo_cuda_launch(*(*C.CUcontext)(unsafe.Pointer(&d.context)), C.uint64_t(d.number),
		*(*C.CUfunction)(unsafe.Pointer(&f)), *(*C.CUstream)(unsafe.Pointer(&s)), (*C.uint)(&grid[0]), (*C.uint)(&block[0]),
		C.uint(shared), (*C.uint64_t)(unsafe.SliceData(args)), C.int(len(args))))
}

// read queues a copy from the card in a stream, and waits for it.
func read(s cu.Stream, to []byte, from Ptr) error {
	return asError(C.grpo_cuda_read(*(*C.CUstream)(unsafe.Pointer(&s)), unsafe.Pointer(&to[0]), C.CUdeviceptr(from), C.size_t(len(to))))
}

// asError converts an answer of the driver to an error of cu.
func asError(code C.CUresult) error {
	if code == C.CUDA_SUCCESS {
		return nil
	}
	return cuError(cu.Success, int(code))
}

// cuError converts a code to the type of cu's errors, which is not exported, but can be inferred from a value.
func cuError[T interface {
	~int
	error
}](_ T, code int) error {
	return T(code)
}
