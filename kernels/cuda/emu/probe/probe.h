// A small program that uses the emulated device as programs use a driver: it opens the library, and finds its functions by name.
#ifndef GRPO_EMU_PROBE_H
#define GRPO_EMU_PROBE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint16_t u16;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;

typedef u64 Pointer;
typedef void *Handle;

// name, parameters
#define CALLS(F)                                                                                                                 \
	F(cuInit, (u32))                                                                                                             \
	F(cuDriverGetVersion, (int *))                                                                                               \
	F(cuDeviceGetCount, (int *))                                                                                                 \
	F(cuDeviceGetName, (char *, int, int))                                                                                       \
	F(cuDeviceTotalMem_v2, (size_t *, int))                                                                                      \
	F(cuDeviceGetAttribute, (int *, int, int))                                                                                   \
	F(cuDevicePrimaryCtxRetain, (Handle *, int))                                                                                 \
	F(cuDevicePrimaryCtxRelease_v2, (int))                                                                                       \
	F(cuCtxSetCurrent, (Handle))                                                                                                 \
	F(cuCtxSynchronize, (void))                                                                                                  \
	F(cuModuleLoadDataEx, (Handle *, const void *, u32, int *, void **))                                                         \
	F(cuModuleUnload, (Handle))                                                                                                  \
	F(cuModuleGetFunction, (Handle *, Handle, const char *))                                                                     \
	F(cuModuleGetGlobal_v2, (Pointer *, size_t *, Handle, const char *))                                                         \
	F(cuMemAlloc_v2, (Pointer *, size_t))                                                                                        \
	F(cuMemFree_v2, (Pointer))                                                                                                   \
	F(cuMemGetInfo_v2, (size_t *, size_t *))                                                                                     \
	F(cuMemAllocHost_v2, (void **, size_t))                                                                                      \
	F(cuMemFreeHost, (void *))                                                                                                   \
	F(cuMemcpyHtoD_v2, (Pointer, const void *, size_t))                                                                          \
	F(cuMemcpyDtoH_v2, (void *, Pointer, size_t))                                                                                \
	F(cuMemcpyDtoD_v2, (Pointer, Pointer, size_t))                                                                               \
	F(cuMemcpyHtoDAsync_v2, (Pointer, const void *, size_t, Handle))                                                             \
	F(cuMemcpyDtoHAsync_v2, (void *, Pointer, size_t, Handle))                                                                   \
	F(cuMemsetD32_v2, (Pointer, u32, size_t))                                                                                    \
	F(cuStreamCreate, (Handle *, u32))                                                                                           \
	F(cuStreamDestroy_v2, (Handle))                                                                                              \
	F(cuStreamSynchronize, (Handle))                                                                                             \
	F(cuStreamWaitEvent, (Handle, Handle, u32))                                                                                  \
	F(cuEventCreate, (Handle *, u32))                                                                                            \
	F(cuEventDestroy_v2, (Handle))                                                                                               \
	F(cuEventRecord, (Handle, Handle))                                                                                           \
	F(cuFuncGetAttribute, (int *, int, Handle))                                                                                  \
	F(cuFuncSetAttribute, (Handle, int, int))                                                                                    \
	F(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, Handle, int, size_t))                                                 \
	F(cuLaunchKernel, (Handle, u32, u32, u32, u32, u32, u32, u32, Handle, void **, void **))                                     \
	F(cuGraphLaunch, (Handle, Handle))                                                                                           \
	F(cuGetErrorName, (int, const char **))

extern u64 (*grpo_emu_instructions)(void);
#define DECLARE(name, parameters) extern int(*name) parameters;
CALLS(DECLARE)
#undef DECLARE

// must ends the program with the call and its error if it fails.
#define must(call) check(call, #call)
void check(int r, const char *call);
const char *error_name(int r);

// The program's state: the module that its first argument names, memory, launches in one dimension.
extern Handle module;
Handle kernel(const char *name);
Pointer upload(const void *from, size_t n);
Pointer allocate(size_t n);
void *download(Pointer p, size_t n);
void release(Pointer p);
int launch(const char *name, u32 blocks, u32 threads, void **arguments);
#define ARGUMENTS(...) ((void *[]){__VA_ARGS__})

u32 random_u32(void);
float random_float(void);
u16 bf16(float f);
float widened(u16 b);
void print_checksum(const char *name, const void *p, size_t n);
void expect_equal(const char *what, const void *got, const void *want, size_t n, size_t each);

void run_kernels(const char *name);
void run_zoo(void);
void run_together(void);
void run_bug(const char *name, bool right);
void run_driver(const char *ptx);
char *read_file(const char *path);
void run_speed(void);
#endif
