// A driver for tests: cards whose memory is the host's, and whose kernels are the two functions below. The environment
// says what is wrong with it, FAKE_CUDA_*, each time that it is asked. It refuses what a driver would: a call without
// a context on this thread, a handle that is not its own, a launch that was not allowed for.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
enum { OK, INVALID = 1, MEMORY = 2, NOT_READY = 600, NO_DEVICE = 100, BAD_DEVICE = 101, NO_CONTEXT = 201, BAD_PTX = 218,
	BAD_HANDLE = 400, NOT_FOUND = 500, ADDRESS = 700, RESOURCES = 701, UNKNOWN = 999 };
enum { CARDS = 8, THINGS = 64 };
typedef unsigned long long ptr;

static long number(const char *name, long otherwise)
{
	const char *text = getenv(name);
	return text && *text ? strtol(text, NULL, 10) : otherwise;
}

__attribute__((constructor)) static void touched(void)
{
	const char *path = getenv("FAKE_CUDA_TOUCHED");
	FILE *f = path ? fopen(path, "w") : NULL;
	if (f)
		fclose(f);
}

// state: what is on the card
static int contexts[CARDS], flags[CARDS], lost, calls;
static __thread int *current;
static struct { void *at; size_t bytes; } memory[THINGS], pinned[THINGS];
static size_t used;
static int streams[THINGS], events[THINGS], modules[THINGS];
static struct function { const char *name; int shared; } functions[] = {{"add", 0}, {"crash", 0}, {"wide", 0}};
enum { STATIC_SHARED = 1024 };

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;

// enter begins a call that needs a context; leave ends it.
static int enter(void)
{
	pthread_mutex_lock(&one);
	if (number("FAKE_CUDA_LOSE", 0) && ++calls >= number("FAKE_CUDA_LOSE", 0))
		lost = UNKNOWN;
	if (lost)
		return lost;
	return current && *current > 0 ? OK : NO_CONTEXT;
}
static void leave(int *answer)
{
	(void)answer;
	pthread_mutex_unlock(&one);
}
#define ENTER \
	__attribute__((cleanup(leave))) int entered = enter(); \
	if (entered) \
		return entered

// keep finds a place for a handle, which is its address.
static int keep(int *things, void **handle)
{
	for (int i = 0; i < THINGS; i++)
		if (!things[i]) {
			things[i] = 1;
			*handle = &things[i];
			return OK;
		}
	return MEMORY;
}

static int known(int *things, void *handle)
{
	int *thing = handle;
	return thing >= things && thing < things + THINGS && *thing;
}

static int drop(int *things, void *handle)
{
	if (!known(things, handle))
		return BAD_HANDLE;
	*(int *)handle = 0;
	return OK;
}

// inside tells whether so many bytes are within one allocation.
static int inside(ptr at, size_t bytes)
{
	for (int i = 0; i < THINGS; i++)
		if (memory[i].at && at >= (ptr)memory[i].at && at + bytes <= (ptr)memory[i].at + memory[i].bytes)
			return 1;
	return 0;
}

// the driver and its cards
API int cuInit(unsigned f) { return f ? INVALID : number("FAKE_CUDA_INIT", OK); }
API int cuDriverGetVersion(int *v) { *v = number("FAKE_CUDA_VERSION", 12040); return OK; }
API int cuDeviceGetCount(int *n) { *n = number("FAKE_CUDA_CARDS", 1); return OK; }
API int cuDeviceGet(int *d, int i) { *d = i; return i < number("FAKE_CUDA_CARDS", 1) ? OK : BAD_DEVICE; }
API int cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "Paper Card %d", d); return OK; }
API int cuDeviceTotalMem_v2(size_t *n, int d) { (void)d; *n = number("FAKE_CUDA_TOTAL", 1L << 30); return OK; }
API int cuDeviceGetAttribute(int *v, int a, int d)
{
	long capability = number("FAKE_CUDA_CAPABILITY", 80);
	switch (a) {
	case 16: *v = 4; return OK;
	case 20: *v = number("FAKE_CUDA_MODE", 0); return OK;
	case 75: *v = capability / 10; return OK;
	case 76: *v = capability % 10; return OK;
	case 97: *v = 101376; return OK;
	}
	return d >= 0 ? INVALID : BAD_DEVICE;
}
API int cuGetErrorName(int code, const char **s)
{
	*s = code == MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : code == ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" :
		code == UNKNOWN ? "CUDA_ERROR_UNKNOWN" : code == BAD_PTX ? "CUDA_ERROR_INVALID_PTX" : NULL;
	return *s ? OK : INVALID;
}
API int cuGetErrorString(int code, const char **s)
{
	*s = code == ADDRESS ? "an illegal memory access was encountered" : NULL;
	return *s ? OK : INVALID;
}

// contexts
API int cuDevicePrimaryCtxSetFlags_v2(int d, unsigned f) { flags[d] = f; return OK; }
API int cuDevicePrimaryCtxGetState(int d, unsigned *f, int *active) { *f = flags[d]; *active = contexts[d] > 0; return OK; }
API int cuDevicePrimaryCtxRetain(void **c, int d)
{
	if (number("FAKE_CUDA_CONTEXT", OK))
		return number("FAKE_CUDA_CONTEXT", OK);
	contexts[d]++;
	*c = &contexts[d];
	return OK;
}
API int cuDevicePrimaryCtxRelease_v2(int d) { return contexts[d] > 0 ? (contexts[d]--, OK) : NO_CONTEXT; }
API int cuCtxSetCurrent(void *c) { current = c; return OK; }
API int cuCtxSynchronize(void) { ENTER; return OK; }

// memory
API int cuMemGetInfo_v2(size_t *free, size_t *total)
{
	ENTER;
	*total = number("FAKE_CUDA_TOTAL", 1L << 30);
	*free = number("FAKE_CUDA_FREE", 1L << 29) - used;
	return OK;
}
API int cuMemAlloc(unsigned *p, unsigned n) { (void)p; (void)n; return UNKNOWN; } // of the oldest drivers: sizes of 32 bits
API int cuMemAlloc_v2(ptr *p, size_t n)
{
	ENTER;
	if (used + n > (size_t)number("FAKE_CUDA_FREE", 1L << 29))
		return MEMORY;
	for (int i = 0; i < THINGS; i++)
		if (!memory[i].at) {
			memory[i].at = aligned_alloc(256, (n + 255) / 256 * 256);
			memory[i].bytes = n;
			used += n;
			*p = (ptr)memory[i].at;
			return OK;
		}
	return MEMORY;
}
API int cuMemFree_v2(ptr p)
{
	ENTER;
	for (int i = 0; i < THINGS; i++)
		if (memory[i].at && (ptr)memory[i].at == p) {
			free(memory[i].at);
			used -= memory[i].bytes;
			memory[i].at = NULL;
			return OK;
		}
	return INVALID;
}
API int cuMemHostAlloc(void **p, size_t n, unsigned f)
{
	ENTER;
	for (int i = 0; i < THINGS; i++)
		if (!f && !pinned[i].at) {
			*p = pinned[i].at = memset(malloc(n), 0xee, n);
			return OK;
		}
	return MEMORY;
}
API int cuMemFreeHost(void *p)
{
	ENTER;
	for (int i = 0; i < THINGS; i++)
		if (p && pinned[i].at == p) {
			free(p);
			pinned[i].at = NULL;
			return OK;
		}
	return INVALID;
}
API int cuMemcpyHtoDAsync_v2(ptr to, const void *from, size_t n, void *s)
{
	ENTER;
	if (!known(streams, s) || !inside(to, n))
		return INVALID;
	memcpy((void *)to, from, n);
	return OK;
}
API int cuMemcpyDtoHAsync_v2(void *to, ptr from, size_t n, void *s)
{
	ENTER;
	if (!known(streams, s) || !inside(from, n))
		return INVALID;
	memcpy(to, (void *)from, n);
	return OK;
}
API int cuMemcpyDtoDAsync_v2(ptr to, ptr from, size_t n, void *s)
{
	ENTER;
	if (!known(streams, s) || !inside(to, n) || !inside(from, n))
		return INVALID;
	memmove((void *)to, (void *)from, n);
	return OK;
}
API int cuMemsetD8Async(ptr to, unsigned char v, size_t n, void *s)
{
	ENTER;
	if (!known(streams, s) || !inside(to, n))
		return INVALID;
	memset((void *)to, v, n);
	return OK;
}

// streams and events
API int cuStreamCreate(void **s, unsigned f) { ENTER; return f == 1 ? keep(streams, s) : INVALID; }
API int cuStreamDestroy_v2(void *s) { ENTER; return drop(streams, s); }
API int cuStreamSynchronize(void *s) { ENTER; return known(streams, s) ? OK : BAD_HANDLE; }
API int cuStreamWaitEvent(void *s, void *e, unsigned f) { ENTER; return known(streams, s) && known(events, e) && !f ? OK : BAD_HANDLE; }
API int cuEventCreate(void **e, unsigned f)
{
	ENTER;
	int answer = keep(events, e);
	if (!answer)
		*(int *)*e = 1 + (int)f;
	return answer;
}
API int cuEventDestroy_v2(void *e) { ENTER; return drop(events, e); }
API int cuEventRecord(void *e, void *s) { ENTER; return known(events, e) && known(streams, s) ? OK : BAD_HANDLE; }
API int cuEventQuery(void *e) { ENTER; return known(events, e) ? number("FAKE_CUDA_EVENT", OK) : BAD_HANDLE; }
API int cuEventSynchronize(void *e) { ENTER; return known(events, e) ? OK : BAD_HANDLE; }
API int cuEventElapsedTime(float *ms, void *a, void *b)
{
	ENTER;
	*ms = 1.5f;
	return known(events, a) && known(events, b) && !((*(int *)a - 1 | *(int *)b - 1) & 2) ? OK : BAD_HANDLE;
}

// modules
API int cuModuleLoadDataEx(void **m, const void *image, unsigned n, int *options, void **values)
{
	ENTER;
	if (strstr(image, ".version") && !getenv("FAKE_CUDA_PTX"))
		return keep(modules, m);
	for (unsigned i = 0; i + 1 < n; i++)
		if (options[i] == 5) // the log, followed by its length
			snprintf(values[i], (size_t)values[i + 1], "%s\n\n", getenv("FAKE_CUDA_LOG") ? getenv("FAKE_CUDA_LOG") : "line 1; syntax error");
	return number("FAKE_CUDA_PTX", BAD_PTX);
}
API int cuModuleUnload(void *m) { ENTER; return drop(modules, m); }
API int cuModuleGetFunction(void **f, void *m, const char *name)
{
	ENTER;
	for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++)
		if (known(modules, m) && !strcmp(name, functions[i].name)) {
			*f = &functions[i];
			return OK;
		}
	return NOT_FOUND;
}
API int cuFuncGetAttribute(int *v, int a, void *f)
{
	static const int values[] = {512, STATIC_SHARED, 0, 24, 96};
	*v = values[a];
	return f ? OK : BAD_HANDLE;
}
API int cuFuncSetAttribute(struct function *f, int a, int v)
{
	ENTER;
	f->shared = v;
	return a == 8 ? OK : INVALID;
}
API int cuLaunchKernel(struct function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, void *s, void **p, void **extra)
{
	ENTER;
	if (!known(streams, s) || !gx || !gy || !gz || !bx || !by || !bz || extra)
		return INVALID;
	if ((shared + STATIC_SHARED > 49152 && (int)shared > f->shared) || bx * by * bz > 512)
		return RESOURCES;
	if (!strcmp(f->name, "crash"))
		lost = ADDRESS; // which the next call is told
	if (!strcmp(f->name, "add")) { // add(float *x, float y, int n)
		float *x = *(float **)p[0];
		for (int i = 0; i < *(int *)p[2] && i < (int)(gx * bx); i++)
			x[i] += *(float *)p[1];
	}
	return OK;
}
