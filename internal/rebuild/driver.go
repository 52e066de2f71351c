package rebuild

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

// Answers of a driver; the other ones are failures, which the GPU backend knows how to tell of.
enum { SUCCESS = 0, STUB = 34, NO_DEVICE = 100 };

// driver tells whether a library is a driver with cards, or one that fails.
static int driver(const char *library)
{
	void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!opened)
		return 0;
	int (*init)(unsigned int) = (int (*)(unsigned int))dlsym(opened, "cuInit");
	int (*count)(int *) = (int (*)(int *))dlsym(opened, "cuDeviceGetCount");
	if (!init || !count)
		return 1;
	int cards = 0, answer = init(0);
	if (answer == SUCCESS)
		answer = count(&cards);
	if (answer == SUCCESS)
		return cards > 0;
	return answer != NO_DEVICE && answer != STUB;
}
*/
import "C"

import (
	"cmp"
	"os"
	"sync"
	"unsafe"
)

// HasDriver reports whether there is a GPU driver. One that does not start counts too: the GPU backend then reports its
// error, and the CPU is not used silently.
var HasDriver = sync.OnceValue(func() bool {
	name := C.CString(cmp.Or(os.Getenv("GRPO_CUDA_LIB"), "libcuda.so.1"))
	defer C.free(unsafe.Pointer(name))
	return C.driver(name) != 0
})
