// Contexts: a primary one for each device, others on request; each host thread has a stack of them.
#include "driver.h"

#include <stdlib.h>

enum { DEPTH = 16 };
static Context primary[MAX_DEVICES], *created;
static __thread Context *stack[DEPTH];
static __thread int depth;

Context *current(void) { return depth && stack[depth - 1] && stack[depth - 1]->alive ? stack[depth - 1] : NULL; }

static bool context_exists(const Context *c) {
	for (int d = 0; d < settings.devices; d++)
		if (c == &primary[d])
			return c->alive;
	for (Context *o = created; o; o = o->next)
		if (o == c)
			return c->alive;
	return false;
}

// in_use reports whether a context exists.
bool in_use(void) {
	bool alive = false;
	for (int d = 0; d < MAX_DEVICES; d++)
		alive = alive || primary[d].alive;
	for (Context *c = created; c; c = c->next)
		alive = alive || c->alive;
	return alive;
}

// end_context reports what was not freed, and frees it.
static void end_context(Context *c) {
	host_waits_for_all();
	report_leaks(c);
	destroy_resources(c);
	c->alive = false;
	c->retained = 0;
	c->sticky_error = SUCCESS;
	c->used = 0;
}

static bool device_exists(CUdevice d) { return d >= 0 && d < settings.devices; }

API CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) {
	CUresult r = enter(INITIALIZED);
	if (r)
		return r;
	if (!device_exists(d) || !c)
		return leave(c ? INVALID_DEVICE : INVALID_VALUE);
	if (settings.busy)
		return leave(DEVICE_UNAVAILABLE);
	*c = &primary[d];
	(*c)->device = d;
	(*c)->alive = (*c)->primary = true;
	(*c)->retained++;
	return leave(SUCCESS);
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) {
	CUresult r = enter(INITIALIZED);
	if (r)
		return r;
	if (!device_exists(d) || !primary[d].retained)
		return leave(device_exists(d) ? INVALID_CONTEXT : INVALID_DEVICE);
	if (--primary[d].retained == 0)
		end_context(&primary[d]);
	return leave(SUCCESS);
}
API CUresult cuDevicePrimaryCtxRelease(CUdevice d) { return cuDevicePrimaryCtxRelease_v2(d); }

API CUresult cuDevicePrimaryCtxReset_v2(CUdevice d) {
	CUresult r = enter(INITIALIZED);
	if (r)
		return r;
	if (device_exists(d))
		end_context(&primary[d]);
	return leave(device_exists(d) ? SUCCESS : INVALID_DEVICE);
}

API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice d, u32 flags) {
	CUresult r = enter(INITIALIZED);
	if (r)
		return r;
	if (device_exists(d))
		primary[d].flags = flags;
	return leave(device_exists(d) ? SUCCESS : INVALID_DEVICE);
}
API CUresult cuDevicePrimaryCtxSetFlags(CUdevice d, u32 flags) { return cuDevicePrimaryCtxSetFlags_v2(d, flags); }

API CUresult cuDevicePrimaryCtxGetState(CUdevice d, u32 *flags, int *active) {
	CUresult r = enter(INITIALIZED);
	if (r)
		return r;
	if (!device_exists(d) || !flags || !active)
		return leave(device_exists(d) ? INVALID_VALUE : INVALID_DEVICE);
	*flags = primary[d].flags;
	*active = primary[d].alive;
	return leave(SUCCESS);
}

API CUresult cuCtxCreate_v2(CUcontext *c, u32 flags, CUdevice d) {
	CUresult r = enter(INITIALIZED);
	if (r)
		return r;
	if (!device_exists(d) || !c || depth == DEPTH)
		return leave(device_exists(d) ? INVALID_VALUE : INVALID_DEVICE);
	if (settings.busy)
		return leave(DEVICE_UNAVAILABLE);
	*c = calloc(1, sizeof **c);
	if (!*c)
		return leave(OUT_OF_MEMORY);
	**c = (Context){.alive = true, .device = d, .flags = flags, .next = created};
	created = stack[depth++] = *c;
	return leave(SUCCESS);
}

API CUresult cuCtxDestroy_v2(CUcontext c) {
	CUresult r = enter(INITIALIZED);
	if (r)
		return r;
	if (!context_exists(c) || c->primary)
		return leave(INVALID_CONTEXT);
	end_context(c); // the struct stays: it may be on the stacks of other threads, which must see that it is dead
	if (depth && stack[depth - 1] == c)
		depth--;
	return leave(SUCCESS);
}

API CUresult cuCtxPushCurrent_v2(CUcontext c) {
	CUresult r = enter(INITIALIZED);
	if (r)
		return r;
	if (!context_exists(c) || depth == DEPTH)
		return leave(INVALID_CONTEXT);
	stack[depth++] = c;
	return leave(SUCCESS);
}

API CUresult cuCtxPopCurrent_v2(CUcontext *c) {
	CUresult r = enter(INITIALIZED);
	if (r)
		return r;
	if (!depth)
		return leave(INVALID_CONTEXT);
	depth--;
	if (c)
		*c = stack[depth];
	return leave(SUCCESS);
}

API CUresult cuCtxSetCurrent(CUcontext c) {
	CUresult r = enter(INITIALIZED);
	if (r)
		return r;
	count(CONTEXTS);
	if (c && !context_exists(c))
		return leave(INVALID_CONTEXT);
	if (!depth)
		depth = 1;
	stack[depth - 1] = c;
	return leave(SUCCESS);
}

API CUresult cuCtxGetCurrent(CUcontext *c) {
	CUresult r = enter(INITIALIZED);
	if (r)
		return r;
	if (c)
		*c = current();
	return leave(c ? SUCCESS : INVALID_VALUE);
}

API CUresult cuCtxGetDevice(CUdevice *d) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if (d)
		*d = current()->device;
	return leave(d ? SUCCESS : INVALID_VALUE);
}

API CUresult cuCtxGetFlags(u32 *flags) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if (flags)
		*flags = current()->flags;
	return leave(flags ? SUCCESS : INVALID_VALUE);
}

API CUresult cuCtxGetApiVersion(CUcontext c, u32 *v) {
	CUresult r = enter(INITIALIZED);
	if (r)
		return r;
	if (v)
		*v = 3020;
	return leave(!v ? INVALID_VALUE : c && !context_exists(c) ? INVALID_CONTEXT : SUCCESS);
}

API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return leave(SUCCESS);
}

// Cache preferences and limits are accepted, and have no effect.
static CUresult accept(void) {
	CUresult r = enter(IN_CONTEXT);
	return r ? r : leave(SUCCESS);
}
static CUresult zero(void *value, size_t n) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	for (u8 *p = value; p && n > 0; n--)
		*p++ = 0;
	return leave(value ? SUCCESS : INVALID_VALUE);
}
API CUresult cuCtxSetLimit(int limit, size_t v) { return (void)limit, (void)v, accept(); }
API CUresult cuCtxGetLimit(size_t *v, int limit) { return (void)limit, zero(v, sizeof *v); }
API CUresult cuCtxSetCacheConfig(int c) { return (void)c, accept(); }
API CUresult cuCtxGetCacheConfig(int *c) { return zero(c, sizeof *c); }
API CUresult cuCtxSetSharedMemConfig(int c) { return (void)c, accept(); }
API CUresult cuCtxGetSharedMemConfig(int *c) { return zero(c, sizeof *c); }
API CUresult cuCtxResetPersistingL2Cache(void) { return accept(); }
