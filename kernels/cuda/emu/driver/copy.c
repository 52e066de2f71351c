// Copies and fills. An asynchronous copy to pinned host memory arrives when the host waits for its stream; until then the host reads
// noise. Copies to other host memory are synchronous, as with the driver.
#include "driver.h"

#include <stdio.h>
#include <string.h>

typedef struct {
	struct Stream *stream;
	u32 operation;
	const char *verb;
} Request;

// device_range finds the allocation of a range of bytes and records the access. If they may not be accessed, ok is false and the context
// has failed.
static Allocation *device_range(const Request *q, u64 address, u64 n, AccessMode mode, bool *ok) {
	Allocation *a = find_allocation(address);
	char why[400], text[500];
	Kind kind = STREAM_RACE;
	*ok = false;
	if (!a || a->freed || address < a->base || address - a->base > a->size || n > a->size - (address - a->base))
		describe_bad_address(address, n > UINT32_MAX ? UINT32_MAX : (u32)n, why, sizeof why, &kind);
	else
		*ok = touch_range(a, address - a->base, n, mode, q->operation, why, sizeof why);
	if (!*ok) {
		snprintf(text, sizeof text, "%s: %s%s", q->verb, kind == STREAM_RACE ? "" : mode == READ ? "it reads " : "it writes ", why);
		fail_context(kind, text);
	}
	return a;
}

static CUresult start_request(Request *q, CUstream stream, const char *verb) {
	CUresult r = get_stream(stream, &q->stream);
	q->verb = verb;
	if (!r)
		q->operation = begin_operation(q->stream);
	return r;
}

static CUresult finish_request(const Request *q, bool ok, bool wait) {
	if (wait)
		host_waits(q->stream);
	return ok ? SUCCESS : wait ? current()->sticky_error : SUCCESS;
}

static CUresult copy_to_device(CUdeviceptr d, const void *s, size_t n, CUstream stream, bool wait) {
	Request q;
	bool ok;
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	count(UPLOADS);
	if (wait)
		count(WAITS);
	if ((r = start_request(&q, stream, "a copy to the device")) || !s || !n || settings.idle)
		return leave(r ? r : n && !s ? INVALID_VALUE : SUCCESS);
	Allocation *a = device_range(&q, d, n, WRITE, &ok);
	if (ok) {
		memcpy(a->bytes + (d - a->base), s, n);
		memset(a->valid + (d - a->base), 1, n);
		if (!wait && find_pinned(s))
			defer_copy(q.stream, (void *)(uintptr_t)s, s, n, false);
	}
	return leave(finish_request(&q, ok, wait));
}

static bool was_written(const Request *q, const Allocation *a, u64 offset, u64 n) {
	const u8 *gap = memchr(a->valid + offset, 0, n);
	char text[300];
	if (!gap)
		return true;
	snprintf(text, sizeof text, "%s: it reads bytes at offset %llu of %s %u that nothing has written", q->verb,
		(unsigned long long)(gap - a->valid), a->what, a->number);
	fail_context(UNINITIALISED, text);
	return false;
}

static CUresult copy_to_host(void *d, CUdeviceptr s, size_t n, CUstream stream, bool wait) {
	Request q;
	bool ok;
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	count(DOWNLOADS);
	if ((r = start_request(&q, stream, "a copy to the host")) || !d || !n)
		return leave(r ? r : n ? INVALID_VALUE : SUCCESS);
	wait = wait || !find_pinned(d);
	if (wait)
		count(WAITS);
	if (settings.idle) {
		memset(d, 0, n);
		return leave(SUCCESS);
	}
	Allocation *a = device_range(&q, s, n, READ, &ok);
	ok = ok && was_written(&q, a, s - a->base, n);
	if (ok && wait)
		memcpy(d, a->bytes + (s - a->base), n);
	else if (ok)
		defer_copy(q.stream, d, a->bytes + (s - a->base), n, true);
	return leave(finish_request(&q, ok, wait));
}

// A copy within the device may read bytes that were never written; their copies count as never written, too.
static CUresult copy_within(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream stream) {
	Request q;
	bool ok;
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	count(COPIES);
	if ((r = start_request(&q, stream, "a copy within the device")) || !n || settings.idle)
		return leave(r);
	Allocation *from = device_range(&q, s, n, READ, &ok), *to = ok ? device_range(&q, d, n, WRITE, &ok) : NULL;
	if (ok) {
		memmove(to->bytes + (d - to->base), from->bytes + (s - from->base), n);
		memmove(to->valid + (d - to->base), from->valid + (s - from->base), n);
	}
	return leave(SUCCESS);
}

API CUresult cuMemcpyHtoD_v2(CUdeviceptr d, const void *s, size_t n) { return copy_to_device(d, s, n, NULL, true); }
API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr d, const void *s, size_t n, CUstream t) { return copy_to_device(d, s, n, t, false); }
API CUresult cuMemcpyDtoH_v2(void *d, CUdeviceptr s, size_t n) { return copy_to_host(d, s, n, NULL, true); }
API CUresult cuMemcpyDtoHAsync_v2(void *d, CUdeviceptr s, size_t n, CUstream t) { return copy_to_host(d, s, n, t, false); }
API CUresult cuMemcpyDtoD_v2(CUdeviceptr d, CUdeviceptr s, size_t n) { return copy_within(d, s, n, NULL); }
API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream t) { return copy_within(d, s, n, t); }

// copy_any chooses the direction by the pointers: device addresses belong to allocations.
static CUresult copy_any(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream t, bool wait) {
	bool from = find_allocation(s), to = find_allocation(d);
	if (from && to)
		return copy_within(d, s, n, t);
	if (from)
		return copy_to_host((void *)(uintptr_t)d, s, n, t, wait);
	return copy_to_device(d, (const void *)(uintptr_t)s, n, t, wait);
}
API CUresult cuMemcpy(CUdeviceptr d, CUdeviceptr s, size_t n) { return copy_any(d, s, n, NULL, true); }
API CUresult cuMemcpyAsync(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream t) { return copy_any(d, s, n, t, false); }

static CUresult fill(CUdeviceptr d, u32 value, u32 size, size_t times, CUstream stream) {
	Request q;
	bool ok;
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	count(FILLS);
	if ((r = start_request(&q, stream, "a fill")) || !times || d % size || times > SIZE_MAX / size)
		return leave(r ? r : times ? INVALID_VALUE : SUCCESS);
	if (settings.idle)
		return leave(SUCCESS);
	Allocation *a = device_range(&q, d, times * size, WRITE, &ok);
	if (ok) {
		if (size == 1)
			memset(a->bytes + (d - a->base), (int)value, times);
		for (size_t n = 0; size > 1 && n < times; n++)
			memcpy(a->bytes + (d - a->base) + n * size, &value, size);
		memset(a->valid + (d - a->base), 1, times * size);
	}
	return leave(SUCCESS);
}
API CUresult cuMemsetD8_v2(CUdeviceptr d, u8 v, size_t n) { return fill(d, v, 1, n, NULL); }
API CUresult cuMemsetD16_v2(CUdeviceptr d, u16 v, size_t n) { return fill(d, v, 2, n, NULL); }
API CUresult cuMemsetD32_v2(CUdeviceptr d, u32 v, size_t n) { return fill(d, v, 4, n, NULL); }
API CUresult cuMemsetD8Async(CUdeviceptr d, u8 v, size_t n, CUstream s) { return fill(d, v, 1, n, s); }
API CUresult cuMemsetD16Async(CUdeviceptr d, u16 v, size_t n, CUstream s) { return fill(d, v, 2, n, s); }
API CUresult cuMemsetD32Async(CUdeviceptr d, u32 v, size_t n, CUstream s) { return fill(d, v, 4, n, s); }
