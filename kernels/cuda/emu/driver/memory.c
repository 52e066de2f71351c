// Device memory, and pinned host memory.
#include "driver.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 512, MEMORY_HOST = 1, MEMORY_DEVICE = 2 };

static u64 rounded_size(u64 n) { return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

CUresult allocate_memory(CUdeviceptr *p, size_t n) {
	Context *c = current();
	if (!p || !n)
		return INVALID_VALUE;
	u64 end = settings.memory < settings.allocation_limit ? settings.memory : settings.allocation_limit;
	if (n > end || c->used + rounded_size(n) > end)
		return OUT_OF_MEMORY;
	Allocation *a = allocate(n, "allocation");
	if (!a)
		return OUT_OF_MEMORY;
	add_resource(DEVICE_MEMORY, a, n);
	c->used += rounded_size(n);
	*p = a->base;
	return SUCCESS;
}

void free_memory(Resource *o) {
	o->context->used -= rounded_size(o->size);
	release(o->handle);
	remove_resource(o);
}

API CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n) {
	CUresult r = enter(IN_CONTEXT);
	return r ? r : leave(allocate_memory(p, n));
}

API CUresult cuMemAllocAsync(CUdeviceptr *p, size_t n, CUstream stream) {
	struct Stream *s;
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	r = get_stream(stream, &s);
	return leave(r ? r : allocate_memory(p, n));
}

// allocation_at returns the allocation that begins at p; only its first address can be freed.
static Resource *allocation_at(CUdeviceptr p) {
	Allocation *a = find_allocation(p);
	return a && !a->freed && a->base == p ? find_resource(DEVICE_MEMORY, a) : NULL;
}

API CUresult cuMemFree_v2(CUdeviceptr p) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	Resource *o = p ? allocation_at(p) : NULL;
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
	Resource *o = allocation_at(p);
	if ((r = get_stream(stream, &s)) || !o)
		return leave(r ? r : INVALID_VALUE);
	if (touch_range(o->handle, 0, o->size, WRITE, begin_operation(s), why, sizeof why))
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
	add_resource(PINNED_MEMORY, *p, n);
	return leave(SUCCESS);
}
API CUresult cuMemAllocHost_v2(void **p, size_t n) { return pin(p, n); }
API CUresult cuMemHostAlloc(void **p, size_t n, u32 flags) { return (void)flags, pin(p, n); }

API CUresult cuMemFreeHost(void *p) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	Resource *o = find_resource(PINNED_MEMORY, p);
	host_waits_for_all();
	if (o) {
		free(p);
		remove_resource(o);
	}
	return leave(o ? SUCCESS : INVALID_VALUE);
}

// Attributes of a pointer: its kind, its context, its address.
API CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr p) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	Allocation *a = find_allocation(p);
	bool device = a && !a->freed && p >= a->base && p - a->base < a->size, host = !device && find_pinned((void *)(uintptr_t)p);
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
