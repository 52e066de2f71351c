// Device memory, and pinned host memory.
#include "driver.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 512, MEMORY_HOST = 1, MEMORY_DEVICE = 2 };

static u64 taken(u64 n) { return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

CUresult take_memory(CUdeviceptr *p, size_t n) {
	Context *c = current();
	if (!p || !n)
		return INVALID_VALUE;
	u64 end = settings.memory < settings.memory_ends ? settings.memory : settings.memory_ends;
	if (n > end || c->used + taken(n) > end)
		return OUT_OF_MEMORY;
	Allocation *a = allocate(n, "allocation");
	if (!a)
		return OUT_OF_MEMORY;
	own(DEVICE_MEMORY, a, n);
	c->used += taken(n);
	*p = a->base;
	return SUCCESS;
}

void free_memory(Owned *o) {
	o->context->used -= taken(o->size);
	release(o->thing);
	disown(o);
}

API CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n) {
	CUresult r = enter(IN_CONTEXT);
	return r ? r : leave(take_memory(p, n));
}

API CUresult cuMemAllocAsync(CUdeviceptr *p, size_t n, CUstream stream) {
	struct Stream *s;
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	r = get_stream(stream, &s);
	return leave(r ? r : take_memory(p, n));
}

// the_start_of returns the allocation that begins at p: only its first address can be freed.
static Owned *the_start_of(CUdeviceptr p) {
	Allocation *a = find_allocation(p);
	return a && !a->freed && a->base == p ? owned(DEVICE_MEMORY, a) : NULL;
}

API CUresult cuMemFree_v2(CUdeviceptr p) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	Owned *o = p ? the_start_of(p) : NULL;
	host_waits_for_all(); // as the driver does
	if (o)
		free_memory(o);
	return leave(o || !p ? SUCCESS : INVALID_VALUE);
}

API CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream) {
	struct Stream *s;
	char why[400];
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	Owned *o = the_start_of(p);
	if ((r = get_stream(stream, &s)) || !o)
		return leave(r ? r : INVALID_VALUE);
	if (touch_range(o->thing, 0, o->size, WRITE, begin_operation(s), why, sizeof why))
		free_memory(o);
	else
		fail_context(STREAM_RACE, why);
	return leave(SUCCESS);
}

API CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	u64 used = current()->used;
	if (free_bytes)
		*free_bytes = settings.memory > used ? settings.memory - used : 0;
	if (total)
		*total = settings.memory;
	return leave(SUCCESS);
}

API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *n, CUdeviceptr p) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	Allocation *a = find_allocation(p);
	if (!a || a->freed || p < a->base || p - a->base >= a->size)
		return leave(NOT_FOUND);
	if (base)
		*base = a->base;
	if (n)
		*n = a->size;
	return leave(SUCCESS);
}

static CUresult pin(void **p, size_t n) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if (!p || !n)
		return leave(INVALID_VALUE);
	*p = aligned_alloc(4096, (n + 4095) / 4096 * 4096);
	if (!*p)
		return leave(OUT_OF_MEMORY);
	memset(*p, 0xff, n);
	own(PINNED_MEMORY, *p, n);
	return leave(SUCCESS);
}
API CUresult cuMemAllocHost_v2(void **p, size_t n) { return pin(p, n); }
API CUresult cuMemHostAlloc(void **p, size_t n, u32 flags) { return (void)flags, pin(p, n); }

API CUresult cuMemFreeHost(void *p) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	Owned *o = owned(PINNED_MEMORY, p);
	host_waits_for_all();
	if (o) {
		free(p);
		disown(o);
	}
	return leave(o ? SUCCESS : INVALID_VALUE);
}

// Attributes of a pointer: its kind, its context, its address.
API CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr p) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	Allocation *a = find_allocation(p);
	bool device = a && !a->freed && p >= a->base && p - a->base < a->size, host = !device && pinned_memory((void *)(uintptr_t)p);
	if (!value || (!device && !host))
		return leave(INVALID_VALUE);
	switch (attribute) {
	case 1: *(CUcontext *)value = current(); break;
	case 2: *(u32 *)value = device ? MEMORY_DEVICE : MEMORY_HOST; break;
	case 3: *(CUdeviceptr *)value = p; break;
	case 8: *(u32 *)value = 0; break;
	default: return leave(NOT_SUPPORTED);
	}
	return leave(SUCCESS);
}
