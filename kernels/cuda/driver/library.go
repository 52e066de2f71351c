//go:build gpu

package driver

// #cgo CFLAGS: -I${SRCDIR}/../include -O2 -Wall -Wextra
// #cgo LDFLAGS: -L${SRCDIR}/lib -Wl,--as-needed -ldl
// #include "cuda.h"
// #include "loader.h"
import "C"

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"unsafe"

	"gorgonia.org/cu"
)

// Built reports whether this binary has the GPU backend.
const Built = true

const (
	// libraryVariable is the environment variable that names a library to use instead of the driver.
	libraryVariable = "GRPO_CUDA_LIB"
	defaultLibrary  = "libcuda.so.1"
)

// library opens the driver on its first call, once per process.
var library = sync.OnceValues(openLibrary)

// openLibrary loads the driver, without looking at its cards.
func openLibrary() (Driver, error) {
	file := defaultLibrary
	if other := os.Getenv(libraryVariable); other != "" {
		file = other
	}
	name := C.CString(file)
	defer C.free(unsafe.Pointer(name))
	var text [4096]C.char
	answer := C.grpo_cuda_open(name, &text[0], C.int(len(text)))
	said := C.GoString(&text[0])
	switch {
	case answer == C.GRPO_CUDA_NO_LIBRARY && file == defaultLibrary:
		return Driver{}, unusable(NoDriver, "no NVIDIA driver: %s; install it (in a container: start that with its GPUs)", said)
	case answer == C.GRPO_CUDA_NO_LIBRARY:
		return Driver{}, unusable(DriverBroken, "%s: %s; unset it for the driver of this machine", libraryVariable, said)
	case answer == C.GRPO_CUDA_NO_DRIVER && file != defaultLibrary:
		return Driver{}, unusable(DriverBroken, "%s=%s is no CUDA driver: it has no cuInit; unset it for the driver of this machine",
			libraryVariable, said)
	case answer == C.GRPO_CUDA_NO_DRIVER:
		return Driver{}, unusable(DriverBroken, "%s is no CUDA driver: it has no cuInit; install the NVIDIA driver again", said)
	}
	driver := Driver{Library: said}
	// Check the version first: if an old driver does not start, its age is the better message.
	if v := cu.Version(); v > 0 {
		driver.Version = Version{v / 1000, v % 1000 / 10}
		if driver.Version.Before(LeastDriver) {
			return driver, unusable(DriverOld, "%s serves CUDA %s, the kernels need %s: install a newer NVIDIA driver",
				said, driver.Version, LeastDriver)
		}
	}
	return driver, startError(said, int(answer))
}

// startError converts the code of cuInit to an error with advice; nil if the driver has started.
func startError(path string, code int) error {
	do := map[int]string{
		C.CUDA_ERROR_STUB_LIBRARY:                   "this is the stub that comes with the toolkit: take its folder out of LD_LIBRARY_PATH",
		C.CUDA_ERROR_OPERATING_SYSTEM:               "the kernel module does not answer: look at nvidia-smi and at dmesg",
		C.CUDA_ERROR_SYSTEM_NOT_READY:               "the system has not started: on a machine with NVSwitch start nvidia-fabricmanager",
		C.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:         "library and kernel module are of different versions: restart the machine",
		C.CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: "the library of another release is not for this card: take it out of LD_LIBRARY_PATH",
	}
	switch code {
	case C.CUDA_SUCCESS:
		return nil
	case C.CUDA_ERROR_NO_DEVICE:
		return unusable(NoDevice, "%s finds no card: look at nvidia-smi and at CUDA_VISIBLE_DEVICES", path)
	}
	advice, known := do[code]
	if !known {
		advice = "look at nvidia-smi and at dmesg"
	}
	return unusable(DriverBroken, "%s does not start: %s; %s", path, describeCode(code), advice)
}

// describeCode describes a code in the words of the driver, such as "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory".
func describeCode(code int) string {
	var name, text *C.char
	C.cuGetErrorName(C.CUresult(code), &name)
	C.cuGetErrorString(C.CUresult(code), &text)
	said := fmt.Sprintf("error %d", code)
	if name != nil {
		said = fmt.Sprintf("%s (%d)", C.GoString(name), code)
	}
	if text != nil {
		said += ": " + strings.TrimSpace(C.GoString(text))
	}
	return said
}
