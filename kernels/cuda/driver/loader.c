//go:build gpu

// A program that links this file starts on any machine: each driver function is a jump through a slot, and a slot leads to a function
// that returns "not initialized" until grpo_cuda_open has found a driver. The functions are hidden, so that they do not clash with
// functions of the same names, such as those of a driver that another library has loaded.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

#include "cuda.h"
#include "loader.h"

#define HIDDEN __attribute__((visibility("hidden")))

static CUresult not_initialized(void) { return CUDA_ERROR_NOT_INITIALIZED; }
static CUresult not_supported(void) { return CUDA_ERROR_NOT_SUPPORTED; } // the driver does not have it: it is too old, or too new

#define CALL(name, entry, parameters) HIDDEN void *grpo_slot_##name = not_initialized;
#include "cuda_calls.h"
#undef CALL

// A jump preserves the registers of the call and its stack, so one text serves all prototypes.
#if defined(__x86_64__)
#define JUMP(slot) "endbr64\n\tjmp *" slot "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(slot) "hint #34\n\tadrp x16, " slot "\n\tldr x16, [x16, :lo12:" slot "]\n\tbr x16\n" // hint 34 is bti c
#else
#error "the GPU backend is for amd64 and arm64"
#endif
#define CALL(name, entry, parameters)                                                                              \
	__asm__(".text\n\t.balign 16\n\t.globl " #name "\n\t.hidden " #name "\n\t.type " #name ", %function\n" #name ":\n\t" \
		JUMP("grpo_slot_" #name) "\t.size " #name ", .-" #name "\n");
#include "cuda_calls.h"
#undef CALL

// cu calls this before main, and ends the process if it fails. So it never does, and touches nothing: grpo_cuda_open makes the call that
// counts.
HIDDEN CUresult cuInit(unsigned int flags)
{
	(void)flags;
	return CUDA_SUCCESS;
}

// find_entry finds the function with the prototype of our header; a driver older than a versioned name has it under the plain name.
static void *find_entry(void *library, const char *name, const char *plain)
{
	void *found = dlsym(library, name);
	if (!found)
		found = dlsym(library, plain);
	return found ? found : (void *)not_supported;
}

int grpo_cuda_open(const char *library, char *text, int length)
{
	void *driver = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!driver) {
		snprintf(text, length, "%s", dlerror());
		return GRPO_CUDA_NO_LIBRARY;
	}
	struct link_map *map;
	snprintf(text, length, "%s", dlinfo(driver, RTLD_DI_LINKMAP, &map) ? library : map->l_name);
	CUresult (*init)(unsigned int) = (CUresult(*)(unsigned int))dlsym(driver, "cuInit");
	if (!init) {
		dlclose(driver);
		return GRPO_CUDA_NO_DRIVER;
	}
#define CALL(name, symbol, parameters) grpo_slot_##name = find_entry(driver, #symbol, #name);
#include "cuda_calls.h"
#undef CALL
	return init(0);
}
