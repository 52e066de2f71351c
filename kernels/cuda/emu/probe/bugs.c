// Kernels and host code with one mistake each, and the same without it.
#include "probe.h"

enum { BLOCKS = 4, THREADS = 256, N = BLOCKS * THREADS };

// Most kernels have only an input and an output.
static void plain(const char *name) {
	bool wide = strstr(name, "missing_wait") || strstr(name, "misaligned");
	size_t n = wide ? N * 4 : N;
	float *x = calloc(n, 4);
	Pointer in = upload(x, n * 4), out = allocate(n * 4);
	must(launch(name, BLOCKS, THREADS, ARGUMENTS(&out, &in)));
	release(in), release(out);
	free(x);
}

static void missing_bound(const char *name) {
	u32 n = N - 6;
	float *x = calloc(n, 4);
	Pointer in = upload(x, n * 4), out = allocate(n * 4);
	must(launch(name, BLOCKS, THREADS, ARGUMENTS(&out, &in, &n)));
	release(in), release(out);
	free(x);
}

static void wrong_stride(const char *name) {
	float *x = calloc(BLOCKS * 100, 4);
	Pointer in = upload(x, BLOCKS * 100 * 4), out = allocate(N * 4);
	must(launch(name, BLOCKS, THREADS, ARGUMENTS(&out, &in)));
	release(in), release(out);
	free(x);
}

static void large_shared(const char *name, bool right) {
	u32 n = 15000;
	Pointer out = allocate(THREADS * 4);
	Handle f = kernel(name);
	if (right)
		must(cuFuncSetAttribute(f, 8, (int)n * 4));
	must(cuLaunchKernel(f, 1, 1, 1, THREADS, 1, 1, n * 4, NULL, ARGUMENTS(&out, &n), NULL));
	must(cuCtxSynchronize());
	release(out);
}

static void use_after_release(bool right) {
	float *x = calloc(N, 4);
	Pointer in = upload(x, N * 4), out = allocate(N * 4);
	if (!right)
		release(in);
	must(launch("missing_barrier_right", BLOCKS, THREADS, ARGUMENTS(&out, &in)));
	if (right)
		release(in);
	release(out);
	free(x);
}

// An upload on one stream is used on another.
static void stream_without_event(bool right) {
	Handle up, work, arrived;
	void *x;
	must(cuStreamCreate(&up, 1));
	must(cuStreamCreate(&work, 1));
	must(cuEventCreate(&arrived, 2));
	must(cuMemAllocHost_v2(&x, N * 4));
	memset(x, 0, N * 4);
	Pointer in = allocate(N * 4), out = allocate(N * 4);
	must(cuMemcpyHtoDAsync_v2(in, x, N * 4, up));
	must(cuEventRecord(arrived, up));
	if (right)
		must(cuStreamWaitEvent(work, arrived, 0));
	must(cuLaunchKernel(kernel("missing_barrier_right"), BLOCKS, 1, 1, THREADS, 1, 1, 0, work, ARGUMENTS(&out, &in), NULL));
	must(cuStreamSynchronize(work));
	must(cuMemFreeHost(x));
	must(cuEventDestroy_v2(arrived));
	must(cuStreamDestroy_v2(up));
	must(cuStreamDestroy_v2(work));
	release(in), release(out);
}

// The host reads the target of a copy before it waited for it, or changes its source.
static void early_read(bool right) {
	u32 seven[4] = {7, 7, 7, 7}, *x;
	Pointer p = upload(seven, sizeof seven);
	must(cuMemAllocHost_v2((void **)&x, sizeof seven));
	must(cuMemcpyDtoHAsync_v2(x, p, sizeof seven, NULL));
	if (right)
		must(cuStreamSynchronize(NULL));
	printf("the host reads %x\n", x[0]);
	must(cuStreamSynchronize(NULL));
	must(cuMemFreeHost(x));
	release(p);
}

static void early_write(bool right) {
	u32 *x;
	must(cuMemAllocHost_v2((void **)&x, 64));
	Pointer p = allocate(64);
	memset(x, 0, 64);
	must(cuMemcpyHtoDAsync_v2(p, x, 64, NULL));
	if (right)
		must(cuStreamSynchronize(NULL));
	x[0] = 1;
	must(cuStreamSynchronize(NULL));
	must(cuMemFreeHost(x));
	release(p);
}

static void leak(bool right) {
	Pointer p = allocate(4096);
	if (right)
		release(p);
}

void run_bug(const char *bug, bool right) {
	char name[100];
	snprintf(name, sizeof name, "%s_%s", bug, right ? "right" : "wrong");
	if (!strcmp(bug, "missing_bound"))
		missing_bound(name);
	else if (!strcmp(bug, "wrong_stride"))
		wrong_stride(name);
	else if (!strcmp(bug, "large_shared"))
		large_shared(name, right);
	else if (!strcmp(bug, "use_after_release"))
		use_after_release(right);
	else if (!strcmp(bug, "stream_without_event"))
		stream_without_event(right);
	else if (!strcmp(bug, "early_read"))
		early_read(right);
	else if (!strcmp(bug, "early_write"))
		early_write(right);
	else if (!strcmp(bug, "leak"))
		leak(right);
	else
		plain(name);
}
