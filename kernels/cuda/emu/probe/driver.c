// A session of an ordinary program, reported step by step. The settings of the emulated device decide which step fails, and how.
#include "probe.h"

enum { N = 1 << 18, CHUNK = 16 << 20 };

static int failed;

// step reports a call that fails.
#define step(call) report_error(call, #call)
static int report_error(int r, const char *call) {
	if (r) {
		printf("%.*s: %s\n", (int)strcspn(call, "("), call, error_name(r));
		failed++;
	}
	return r;
}

static void devices(void) {
	int n = 0, version = 0, major = 0, minor = 0;
	step(cuDriverGetVersion(&version));
	if (step(cuInit(0)) || step(cuDeviceGetCount(&n)))
		return;
	printf("driver %d\n", version);
	for (int d = 0; d < n; d++) {
		char name[100];
		size_t bytes = 0;
		step(cuDeviceGetName(name, sizeof name, d));
		step(cuDeviceTotalMem_v2(&bytes, d));
		step(cuDeviceGetAttribute(&major, 75, d));
		step(cuDeviceGetAttribute(&minor, 76, d));
		printf("device %d: %s, %d.%d, %zu bytes\n", d, name, major, minor, bytes);
	}
}

static bool load(const char *path) {
	char log[1000] = "", *text = read_file(path);
	int options[] = {5, 6};
	void *values[] = {log, (void *)sizeof log};
	bool bad = step(cuModuleLoadDataEx(&module, text, 2, options, values));
	if (*log)
		printf("log: %s\n", log);
	free(text);
	return !bad;
}

// launches launches five times, and reports the result of the wait after each.
static void launches(void) {
	Pointer x = 0, y = 0;
	u32 n = 256;
	float a = 2;
	Handle f = NULL;
	if (step(cuMemAlloc_v2(&x, n * 4)) || step(cuMemAlloc_v2(&y, n * 4)) || step(cuMemsetD32_v2(x, 0, n)) || step(cuMemsetD32_v2(y, 0, n)) ||
		step(cuModuleGetFunction(&f, module, "saxpy")))
		return;
	for (int l = 1; l <= 5 && !failed; l++) {
		step(cuLaunchKernel(f, 1, 1, 1, n, 1, 1, 0, NULL, ARGUMENTS(&y, &x, &a, &n), NULL));
		if (!step(cuCtxSynchronize()))
			printf("launch %d is done\n", l);
	}
	step(cuMemFree_v2(x));
	step(cuMemFree_v2(y));
}

static void memory(void) {
	Pointer all[64];
	int n = 0;
	size_t free_bytes, total;
	while (n < 64 && !step(cuMemAlloc_v2(&all[n], CHUNK)))
		n++;
	printf("%d chunks of 16 MB\n", n);
	if (!cuMemGetInfo_v2(&free_bytes, &total))
		printf("%zu of %zu bytes are free\n", free_bytes, total);
	while (n-- > 0)
		cuMemFree_v2(all[n]);
}

static void questions(void) {
	int v = 0;
	Handle f = NULL;
	if (cuModuleGetFunction(&f, module, "gemm"))
		return;
	step(cuFuncGetAttribute(&v, 1, f));
	printf("gemm has %d bytes of shared memory", v);
	step(cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, 128, 0));
	printf(", and a multiprocessor holds %d of its blocks\n", v);
	step(cuGraphLaunch(NULL, NULL));
	step(cuModuleGetFunction(&f, module, "nobody"));
}

void run_driver(const char *ptx) {
	Handle context = NULL;
	devices();
	if (failed || step(cuDevicePrimaryCtxRetain(&context, 0)) || step(cuCtxSetCurrent(context)))
		return;
	if (load(ptx)) {
		memory();
		failed = 0;
		launches();
		if (!failed)
			questions();
		step(cuModuleUnload(module));
	}
	step(cuDevicePrimaryCtxRelease_v2(0));
}
