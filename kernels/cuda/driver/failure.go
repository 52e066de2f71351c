//go:build gpu

package driver

// #include "cuda.h"
import "C"

import (
	"errors"
	"fmt"

	"gorgonia.org/cu"
)

// Error is a call that the driver refused.
type Error struct {
	Card  Card
	Doing string // the operation, such as "allocating 3.0 GiB"
	Code  int    // CUresult
	Said  string // the name and description of the code by the driver

	// Launched is the last kernel that was launched, because errors of a kernel are reported by later calls.
	Launched string
}

// ErrLost marks that the card cannot be used in this process any more.
var ErrLost = errors.New("the card is lost to this process")

// ErrMemory marks that the card has no memory left.
var ErrMemory = errors.New("the card is out of memory")

func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %s: %s", e.Card, e.Doing, e.Said)
	switch {
	case sticky(e.Code):
		if e.Launched != "" {
			text += "; the last kernel launched was " + e.Launched
		}
		text += "; nothing more runs on it in this process: look at dmesg for Xid, then type the same command again " +
			"(a run goes on from its last checkpoint)"
	case e.Code == C.CUDA_ERROR_OUT_OF_MEMORY:
		text += "; end what else runs on it (see nvidia-smi), take less " +
			"(of a run, max_rows and cache_memory; --dry-run says what takes how much), or device=cpu"
	}
	return text
}

// Is matches ErrLost and ErrMemory.
func (e *Error) Is(target error) bool {
	return target == ErrLost && sticky(e.Code) || target == ErrMemory && e.Code == C.CUDA_ERROR_OUT_OF_MEMORY
}

// sticky reports whether the error of a kernel or of the card makes every later call of this process fail, too.
func sticky(code int) bool {
	switch code {
	case C.CUDA_ERROR_ECC_UNCORRECTABLE, C.CUDA_ERROR_NVLINK_UNCORRECTABLE, C.CUDA_ERROR_EXTERNAL_DEVICE,
		C.CUDA_ERROR_ILLEGAL_ADDRESS, C.CUDA_ERROR_LAUNCH_TIMEOUT, C.CUDA_ERROR_ASSERT, C.CUDA_ERROR_HARDWARE_STACK_ERROR,
		C.CUDA_ERROR_ILLEGAL_INSTRUCTION, C.CUDA_ERROR_MISALIGNED_ADDRESS, C.CUDA_ERROR_INVALID_ADDRESS_SPACE,
		C.CUDA_ERROR_INVALID_PC, C.CUDA_ERROR_LAUNCH_FAILED, C.CUDA_ERROR_CONTEXT_IS_DESTROYED, C.CUDA_ERROR_DEINITIALIZED,
		C.CUDA_ERROR_NO_DEVICE, C.CUDA_ERROR_DEVICE_UNAVAILABLE, C.CUDA_ERROR_UNKNOWN:
		return true
	}
	return false
}

// codeOf is the CUresult of an error of cu. cu does not export the type of its errors, but a type parameter can infer it
// from an exported value.
func codeOf(err error) int { return cuErrorCode(cu.Success, err) }

func cuErrorCode[T ~int](_ T, err error) int {
	if err == nil {
		return C.CUDA_SUCCESS
	}
	if code, ok := any(err).(T); ok {
		return int(code)
	}
	return C.CUDA_ERROR_UNKNOWN
}

// cardError converts an error of cu about a card.
func cardError(card Card, doing string, err error) *Error {
	code := codeOf(err)
	return &Error{Card: card, Doing: doing, Code: code, Said: describeCode(code)}
}
