//go:build gpu

package driver

// Calls that cu lacks, and launches, for which cu crosses from Go to C five times. The Context, Function and Stream of cu are structs
// with the driver's handle as the only field, so that a cast of a pointer gives the handle.

/*
#cgo noescape grpo_cuda_launch
#cgo nocallback grpo_cuda_launch
#cgo nocallback grpo_cuda_enter

#include <stdint.h>

#include "cuda.h"

// The context that this thread has, by the number of the device that is in use; 0: none of ours.
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

// A launch sets the context itself, so that it may come from any thread. The driver copies the arguments before it returns.
static CUresult grpo_cuda_launch(CUcontext context, uint64_t device, CUfunction f, CUstream stream, const unsigned *grid,
	const unsigned *block, unsigned shared, uint64_t *arguments, int count)
{
	void *at[32]; // mostArgs
	CUresult answer = grpo_cuda_enter(context, device);
	if (answer)
		return answer;
	for (int i = 0; i < count; i++)
		at[i] = &arguments[i];
	return cuLaunchKernel(f, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, stream, at, NULL);
}

// A copy that waits for its turn in a stream, and is done when it returns: cuMemcpyDtoH takes turns with no stream of
// ours. It is one call, since memory of Go may be used by C for no longer than that.
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

// enterContext makes a context current for this thread, unless it is already: device is the number of its Device.
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
	return likeCode(cu.Success, int(code))
}

// likeCode makes an error of the unexported type of cu's errors.
func likeCode[T interface {
	~int
	error
}](_ T, code int) error {
	return T(code)
}
