//go:build gpu

package driver

// What cu has no calls for. Its Function and its Stream are structs of the driver's handle and nothing else, which is
// how the handle is had.

/*
#include "cuda.h"

// A copy that waits for its turn in a stream, and is done when it returns: cuMemcpyHtoD takes turns with no stream of
// ours. It is one call, since memory of Go may be used by C for no longer than that.
static CUresult grpo_cuda_write(CUstream stream, CUdeviceptr to, const void *from, size_t bytes)
{
	CUresult answer = cuMemcpyHtoDAsync(to, from, bytes, stream);
	return answer ? answer : cuStreamSynchronize(stream);
}

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

// allocHost gives pinned memory.
func allocHost(bytes int) (unsafe.Pointer, error) {
	var at unsafe.Pointer
	return at, asError(C.cuMemHostAlloc(&at, C.size_t(bytes), 0))
}

// allowShared lets a function be launched with so much dynamic shared memory: more than 48 KiB must be asked for.
func allowShared(f cu.Function, bytes int) error {
	return asError(C.cuFuncSetAttribute(*(*C.CUfunction)(unsafe.Pointer(&f)), C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(bytes)))
}

// write copies to the card behind what is queued in a stream, and waits for it.
func write(s cu.Stream, to Ptr, from []byte) error {
	return asError(C.grpo_cuda_write(*(*C.CUstream)(unsafe.Pointer(&s)), C.CUdeviceptr(to), unsafe.Pointer(&from[0]), C.size_t(len(from))))
}

// read copies from the card behind what is queued in a stream, and waits for it.
func read(s cu.Stream, to []byte, from Ptr) error {
	return asError(C.grpo_cuda_read(*(*C.CUstream)(unsafe.Pointer(&s)), unsafe.Pointer(&to[0]), C.CUdeviceptr(from), C.size_t(len(to))))
}

// asError is an answer as cu would give it.
func asError(code C.CUresult) error {
	if code == C.CUDA_SUCCESS {
		return nil
	}
	return likeCode(cu.Success, int(code))
}

// likeCode makes an error of the type of cu's answers.
func likeCode[T interface {
	~int
	error
}](_ T, code int) error {
	return T(code)
}
