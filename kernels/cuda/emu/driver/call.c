// Entry and exit of every call: one at a time, counted, with the sticky error; and the list of what is not freed.
#include "driver.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Resource *resources[RESOURCE_KINDS]; // by kind
bool initialized;
u64 calls;

static u64 unpublished[COUNTERS], *counts = unpublished;

// If GRPO_EMU_COUNTS is set, the counts are in that file from the time when the library is loaded.
__attribute__((constructor)) static void loaded(void) {
	const char *path = getenv("GRPO_EMU_COUNTS");
	read_settings();
	if (!path || !*path)
		return;
	int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
	void *seen = MAP_FAILED;
	if (file >= 0 && !ftruncate(file, sizeof unpublished))
		seen = mmap(NULL, sizeof unpublished, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (seen == MAP_FAILED)
		perror(path);
	else
		counts = seen;
	if (file >= 0)
		close(file);
}

void count(Counter what) { __atomic_add_fetch(&counts[what], 1, __ATOMIC_RELAXED); }

// injected_error is the error that a test wants a function to return.
static CUresult injected_error(const char *function) {
	size_t n = settings.inject ? strcspn(settings.inject, ":") : 0;
	return n && settings.inject[n] && strlen(function) == n && !memcmp(function, settings.inject, n) ? atoi(settings.inject + n + 1) : SUCCESS;
}

CUresult enter_call(Needs needs, const char *function) {
	pthread_mutex_lock(&lock);
	calls++;
	count(CALLS);
	CUresult r = injected_error(function);
	if (r)
		return leave(r);
	if (needs > ALWAYS && !initialized)
		r = NOT_INITIALIZED;
	else if (needs > ALWAYS && settings.lost_at && calls >= settings.lost_at)
		r = UNKNOWN; // the card has fallen off the bus
	else if (needs == IN_CONTEXT)
		r = current() ? current()->sticky_error : INVALID_CONTEXT;
	return r ? leave(r) : SUCCESS;
}

CUresult leave(CUresult r) {
	pthread_mutex_unlock(&lock);
	return r;
}

static CUresult error_of(Kind kind) {
	switch (kind) {
	case OUT_OF_BOUNDS: case USE_AFTER_FREE: return ILLEGAL_ADDRESS;
	case MISALIGNED: return MISALIGNED_ADDRESS;
	case ENDLESS: return LAUNCH_TIMEOUT;
	case BAD_INSTRUCTION: return ILLEGAL_INSTRUCTION;
	default: return LAUNCH_FAILED;
	}
}

// fail_context reports a finding, and makes all later calls fail. As on a card, the call that caused it may itself succeed.
void fail_context(Kind kind, const char *text) {
	print_finding(kind, text);
	if (current() && !current()->sticky_error)
		current()->sticky_error = error_of(kind);
}

Resource *add_resource(ResourceKind what, void *handle, u64 size) {
	Resource *o = calloc(1, sizeof *o);
	if (!o)
		abort();
	*o = (Resource){.what = what, .handle = handle, .size = size, .call = calls, .context = current(), .next = resources[what]};
	return resources[what] = o;
}

Resource *find_resource(ResourceKind what, const void *handle) {
	for (Resource *o = resources[what]; o; o = o->next)
		if (o->handle == handle)
			return o;
	return NULL;
}

void remove_resource(Resource *o) {
	for (Resource **p = &resources[o->what]; *p; p = &(*p)->next)
		if (*p == o) {
			*p = o->next;
			free(o);
			return;
		}
}

Resource *find_pinned(const void *host) {
	for (Resource *o = resources[PINNED_MEMORY]; o; o = o->next)
		if ((const u8 *)host >= (u8 *)o->handle && (const u8 *)host < (u8 *)o->handle + o->size)
			return o;
	return NULL;
}

// Of each kind of leak, the first few are named and the others counted.
enum { MAX_REPORTED = 8 };

// can_free: a program cannot free anything on a card that has failed.
static bool can_free(const Resource *o) {
	return !(o->context && o->context->sticky_error) && !(settings.lost_at && calls >= settings.lost_at);
}

static void report_leak(const Resource *o) {
	static const char *names[] = {"device memory", "pinned host memory", "a stream", "an event", "a module"};
	char text[200];
	if (o->size)
		snprintf(text, sizeof text, "%llu bytes of %s that call %llu of the driver took were never freed", (unsigned long long)o->size,
			names[o->what], (unsigned long long)o->call);
	else
		snprintf(text, sizeof text, "%s that call %llu of the driver made was never destroyed", names[o->what], (unsigned long long)o->call);
	print_finding(LEAK, text);
}

// report_leaks reports what a context still holds (NULL: all contexts), each thing once.
void report_leaks(const Context *c) {
	char text[200];
	u32 leaks = 0;
	for (u32 what = 0; what < RESOURCE_KINDS; what++)
		for (Resource *o = resources[what]; o; o = o->next) {
			if (o->reported || !can_free(o) || (c && o->context != c))
				continue;
			o->reported = true;
			if (++leaks <= MAX_REPORTED)
				report_leak(o);
		}
	if (leaks > MAX_REPORTED) {
		snprintf(text, sizeof text, "and %u more", leaks - MAX_REPORTED);
		print_finding(LEAK, text);
	}
}

static void destroy(Resource *o) {
	switch (o->what) {
	case DEVICE_MEMORY: free_memory(o); return;
	case PINNED_MEMORY: free(o->handle); break;
	case STREAM: free_stream(o->handle); break;
	case EVENT: free(o->handle); break;
	case MODULE: unload_module(o->handle); break;
	}
	remove_resource(o);
}

void destroy_resources(Context *c) {
	for (u32 what = 0; what < RESOURCE_KINDS; what++)
		for (Resource *o = resources[what], *next; o; o = next) {
			next = o->next;
			if (o->context == c)
				destroy(o);
		}
}

// grpo_emu_report reports what is not freed yet, and returns the number of all findings of this process.
API int grpo_emu_report(void) {
	pthread_mutex_lock(&lock);
	report_leaks(NULL);
	int n = count_findings();
	pthread_mutex_unlock(&lock);
	return n;
}

__attribute__((destructor)) static void at_exit(void) { grpo_emu_report(); }

static const struct { CUresult code; const char *name, *text; } errors[] = {
	{SUCCESS, "CUDA_SUCCESS", "no error"},
	{INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "the device is busy or unavailable"},
	{NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
	{INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
	{INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
	{UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain"},
	{FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
	{INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
	{LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
	{LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
	{PRIMARY_CONTEXT_ACTIVE, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "the primary context is active"},
	{CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
	{HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the memory is already registered"},
	{HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "the memory is not registered"},
	{ILLEGAL_INSTRUCTION, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
	{MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
	{LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
	{NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
	{UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static CUresult error_text(CUresult r, bool name, const char **s) {
	if (!s)
		return INVALID_VALUE;
	*s = NULL;
	for (size_t n = 0; n < sizeof errors / sizeof *errors; n++)
		if (errors[n].code == r)
			*s = name ? errors[n].name : errors[n].text;
	return *s ? SUCCESS : INVALID_VALUE;
}
API CUresult cuGetErrorName(CUresult r, const char **s) { return error_text(r, true, s); }
API CUresult cuGetErrorString(CUresult r, const char **s) { return error_text(r, false, s); }
