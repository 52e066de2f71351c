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
static Owned *all_owned[KINDS_OWNED]; // by kind
bool initialized;
u64 calls;

static u64 unseen[COUNTED], *counts = unseen;

// If GRPO_EMU_COUNTS is set, the counts are kept in that file from the moment the library is loaded.
__attribute__((constructor)) static void loaded(void) {
	const char *path = getenv("GRPO_EMU_COUNTS");
	read_settings();
	if (!path || !*path)
		return;
	int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
	void *seen = MAP_FAILED;
	if (file >= 0 && !ftruncate(file, sizeof unseen))
		seen = mmap(NULL, sizeof unseen, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (seen == MAP_FAILED)
		perror(path);
	else
		counts = seen;
	if (file >= 0)
		close(file);
}

void count(Counted what) { __atomic_add_fetch(&counts[what], 1, __ATOMIC_RELAXED); }

// asked_for is the error that a test wants a function to return.
static CUresult asked_for(const char *function) {
	size_t n = settings.answer ? strcspn(settings.answer, ":") : 0;
	return n && settings.answer[n] && strlen(function) == n && !memcmp(function, settings.answer, n) ? atoi(settings.answer + n + 1) : SUCCESS;
}

CUresult enter_call(Needs needs, const char *function) {
	pthread_mutex_lock(&lock);
	calls++;
	count(CALLS);
	CUresult r = asked_for(function);
	if (r)
		return leave(r);
	if (needs > ALWAYS && !initialized)
		r = NOT_INITIALIZED;
	else if (needs > ALWAYS && settings.lost_at && calls >= settings.lost_at)
		r = UNKNOWN; // the card has fallen off the bus
	else if (needs == IN_CONTEXT)
		r = current() ? current()->stuck : INVALID_CONTEXT;
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

// fail_context reports a finding. As on a device, the call that caused it may have returned already; all later calls fail.
void fail_context(Kind kind, const char *text) {
	tell(kind, text);
	if (current() && !current()->stuck)
		current()->stuck = error_of(kind);
}

Owned *own(What what, void *thing, u64 size) {
	Owned *o = calloc(1, sizeof *o);
	if (!o)
		abort();
	*o = (Owned){.what = what, .thing = thing, .size = size, .call = calls, .context = current(), .next = all_owned[what]};
	return all_owned[what] = o;
}

Owned *owned(What what, const void *thing) {
	for (Owned *o = all_owned[what]; o; o = o->next)
		if (o->thing == thing)
			return o;
	return NULL;
}

void disown(Owned *o) {
	for (Owned **p = &all_owned[o->what]; *p; p = &(*p)->next)
		if (*p == o) {
			*p = o->next;
			free(o);
			return;
		}
}

Owned *pinned_memory(const void *host) {
	for (Owned *o = all_owned[PINNED_MEMORY]; o; o = o->next)
		if ((const u8 *)host >= (u8 *)o->thing && (const u8 *)host < (u8 *)o->thing + o->size)
			return o;
	return NULL;
}

// Of each kind of leak, the first few are named and the others counted.
enum { MOST_TOLD = 8 };

// can_free: a program cannot free anything on a card that has failed.
static bool can_free(const Owned *o) {
	return !(o->context && o->context->stuck) && !(settings.lost_at && calls >= settings.lost_at);
}

static void tell_leak(const Owned *o) {
	static const char *names[] = {"device memory", "pinned host memory", "a stream", "an event", "a module"};
	char text[200];
	if (o->size)
		snprintf(text, sizeof text, "%llu bytes of %s that call %llu of the driver took were never freed", (unsigned long long)o->size,
			names[o->what], (unsigned long long)o->call);
	else
		snprintf(text, sizeof text, "%s that call %llu of the driver made was never destroyed", names[o->what], (unsigned long long)o->call);
	tell(LEAK, text);
}

// tell_leaks reports what a context still holds (NULL: all contexts), each thing once.
void tell_leaks(const Context *c) {
	char text[200];
	u32 leaks = 0;
	for (u32 what = 0; what < KINDS_OWNED; what++)
		for (Owned *o = all_owned[what]; o; o = o->next) {
			if (o->told || !can_free(o) || (c && o->context != c))
				continue;
			o->told = true;
			if (++leaks <= MOST_TOLD)
				tell_leak(o);
		}
	if (leaks > MOST_TOLD) {
		snprintf(text, sizeof text, "and %u more", leaks - MOST_TOLD);
		tell(LEAK, text);
	}
}

static void destroy(Owned *o) {
	switch (o->what) {
	case DEVICE_MEMORY: free_memory(o); return;
	case PINNED_MEMORY: free(o->thing); break;
	case STREAM: free_stream(o->thing); break;
	case EVENT: free(o->thing); break;
	case MODULE: unload_module(o->thing); break;
	}
	disown(o);
}

void destroy_all_of(Context *c) {
	for (u32 what = 0; what < KINDS_OWNED; what++)
		for (Owned *o = all_owned[what], *next; o; o = next) {
			next = o->next;
			if (o->context == c)
				destroy(o);
		}
}

// grpo_emu_report reports what is not freed yet, and returns the number of all findings of this process.
API int grpo_emu_report(void) {
	pthread_mutex_lock(&lock);
	tell_leaks(NULL);
	int n = findings();
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
