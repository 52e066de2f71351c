// Streams and events. Operations run at once, in the order of the calls. What is modelled is which of them a card would order, by vector
// clocks: each stream numbers its operations, and clocks[s][t] is how many operations of stream t precede the next one of stream s,
// because of events that s waited for, or because the host had waited before the call. The host has a clock like a stream.
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RECENT = 1 << 16 };

static u32 clocks[CLOCKS][CLOCKS], sequence[CLOCKS], last_operation;
static Operation recent[RECENT];
static struct Stream streams[MAX_STREAMS]; // the first is the default stream
struct Stream default_stream;

typedef struct Deferred {
	void *host;
	u8 *bytes;
	u64 n;
	u32 stream, sequence;
	bool to_host;
	struct Deferred *next;
} Deferred;
static Deferred *deferred, **last_deferred = &deferred;

static void merge_clock(u32 *into, const u32 *from) {
	for (u32 t = 0; t < CLOCKS; t++)
		into[t] = from[t] > into[t] ? from[t] : into[t];
}

bool is_default(const struct Stream *s) { return s->index == 0; }

CUresult get_stream(CUstream handle, struct Stream **s) {
	uintptr_t v = (uintptr_t)handle;
	if (v <= 2) { // 1 and 2 are the legacy and the per-thread default stream
		*s = &default_stream;
		return SUCCESS;
	}
	if (handle < streams || handle >= streams + MAX_STREAMS || !handle->used)
		return INVALID_HANDLE;
	*s = handle;
	return SUCCESS;
}

// begin_operation numbers an operation. The default stream and those not created non-blocking wait for each other.
u32 begin_operation(struct Stream *s) {
	merge_clock(clocks[s->index], clocks[HOST]);
	if (is_default(s)) {
		for (u32 t = 1; t < MAX_STREAMS; t++)
			if (streams[t].used && !streams[t].non_blocking)
				merge_clock(clocks[0], clocks[t]);
	} else if (!s->non_blocking) {
		merge_clock(clocks[s->index], clocks[0]);
	}
	clocks[s->index][s->index] = ++sequence[s->index];
	if (recent[last_operation % RECENT].stream != s->index)
		one_stream_since = last_operation + 1;
	recent[++last_operation % RECENT] = (Operation){s->index, sequence[s->index]};
	return last_operation;
}

bool operation_is_ordered(u32 earlier, u32 later) {
	Operation e = recent[earlier % RECENT], l = recent[later % RECENT];
	return later - earlier >= RECENT || e.stream == l.stream || clocks[l.stream][e.stream] >= e.sequence;
}

void describe_operations(u32 earlier, u32 later, char *into, size_t size) {
	Operation e = recent[earlier % RECENT], l = recent[later % RECENT];
	snprintf(into, size, "stream %u, of which this is operation %u, did not wait for operation %u of stream %u, which touched them; record "
		"an event there and wait for it here", l.stream, l.sequence, e.sequence, e.stream);
}

static void deliver(const Deferred *d) {
	char text[200];
	if (d->to_host) {
		memcpy(d->host, d->bytes, d->n);
	} else if (memcmp(d->host, d->bytes, d->n)) {
		snprintf(text, sizeof text, "pinned memory of %llu bytes changed before its copy to the device was waited for; wait, then write",
			(unsigned long long)d->n);
		fail_context(HOST_RACE, text);
	}
}

// advance_host_clock follows a wait of the host: copies that have ended arrive in host memory.
static void advance_host_clock(const u32 *from) {
	merge_clock(clocks[HOST], from);
	for (Deferred **p = &deferred; *p;) {
		Deferred *d = *p;
		if (d->sequence > clocks[HOST][d->stream]) {
			p = &d->next;
			continue;
		}
		deliver(d);
		*p = d->next;
		free(d->bytes);
		free(d);
	}
	last_deferred = &deferred;
	while (*last_deferred)
		last_deferred = &(*last_deferred)->next;
	bool all = true;
	for (u32 t = 0; t < MAX_STREAMS; t++)
		all = all && clocks[HOST][t] == sequence[t];
	if (all)
		completed_operation = last_operation;
}

void host_waits(const struct Stream *s) { advance_host_clock(clocks[s->index]); }

void host_waits_for_all(void) {
	u32 all[CLOCKS];
	memcpy(all, sequence, sizeof all);
	advance_host_clock(all);
}

void defer_copy(const struct Stream *s, void *host, const void *bytes, u64 n, bool to_host) {
	Deferred *d = malloc(sizeof *d);
	u8 *copy = malloc(n);
	if (!d || !copy)
		abort();
	memcpy(copy, bytes, n);
	*d = (Deferred){host, copy, n, s->index, sequence[s->index], to_host, NULL};
	*last_deferred = d;
	last_deferred = &d->next;
	if (to_host)
		memset(host, 0xff, n);
}

API CUresult cuStreamCreateWithPriority(CUstream *s, u32 flags, int priority) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if (!s || flags > 1)
		return leave(INVALID_VALUE);
	for (u32 t = 1; t < MAX_STREAMS; t++)
		if (!streams[t].used) {
			streams[t] = (struct Stream){t, true, flags == 1, priority, current()};
			add_resource(STREAM, *s = &streams[t], 0);
			return leave(SUCCESS);
		}
	return leave(OUT_OF_MEMORY);
}
API CUresult cuStreamCreate(CUstream *s, u32 flags) { return cuStreamCreateWithPriority(s, flags, 0); }

void free_stream(struct Stream *s) { s->used = false; }

API CUresult cuStreamDestroy_v2(CUstream s) {
	struct Stream *t;
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	r = get_stream(s, &t);
	if (r || t == &default_stream)
		return leave(INVALID_HANDLE);
	remove_resource(find_resource(STREAM, t));
	free_stream(t);
	return leave(SUCCESS);
}

API CUresult cuStreamGetPriority(CUstream s, int *priority) {
	struct Stream *t;
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if (!(r = get_stream(s, &t)) && priority)
		*priority = t->priority;
	return leave(r);
}

API CUresult cuStreamGetFlags(CUstream s, u32 *flags) {
	struct Stream *t;
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if (!(r = get_stream(s, &t)) && flags)
		*flags = t->non_blocking;
	return leave(r);
}

// wait_or_query waits for a stream or asks whether it is done: here the same, since operations run when they are called.
static CUresult wait_or_query(CUstream s, bool waits) {
	struct Stream *t;
	CUresult r = enter_call(IN_CONTEXT, waits ? "cuStreamSynchronize" : "cuStreamQuery");
	if (r)
		return r;
	if (waits)
		count(WAITS);
	if (!(r = get_stream(s, &t))) {
		if (is_default(t))
			begin_operation(t);
		host_waits(t);
	}
	return leave(r ? r : current()->sticky_error);
}
API CUresult cuStreamSynchronize(CUstream s) { return wait_or_query(s, true); }
API CUresult cuStreamQuery(CUstream s) { return wait_or_query(s, false); }

API CUresult cuCtxSynchronize(void) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	count(WAITS);
	host_waits_for_all();
	return leave(current()->sticky_error);
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

API CUresult cuEventCreate(CUevent *e, u32 flags) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if (!e)
		return leave(INVALID_VALUE);
	*e = calloc(1, sizeof **e);
	if (!*e)
		return leave(OUT_OF_MEMORY);
	(*e)->untimed = flags & 2;
	add_resource(EVENT, *e, 0);
	return leave(SUCCESS);
}

API CUresult cuEventDestroy_v2(CUevent e) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	Resource *o = find_resource(EVENT, e);
	if (o) {
		remove_resource(o);
		free(e);
	}
	return leave(o ? SUCCESS : INVALID_HANDLE);
}

API CUresult cuEventRecord(CUevent e, CUstream stream) {
	struct Stream *s;
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if ((r = get_stream(stream, &s)) || !find_resource(EVENT, e))
		return leave(INVALID_HANDLE);
	begin_operation(s);
	memcpy(e->clock, clocks[s->index], sizeof e->clock);
	e->recorded = true;
	e->time = now();
	return leave(SUCCESS);
}

API CUresult cuStreamWaitEvent(CUstream stream, CUevent e, u32 flags) {
	struct Stream *s;
	CUresult r = enter(IN_CONTEXT);
	(void)flags;
	if (r)
		return r;
	if ((r = get_stream(stream, &s)) || !find_resource(EVENT, e))
		return leave(INVALID_HANDLE);
	if (e->recorded)
		merge_clock(clocks[s->index], e->clock);
	return leave(SUCCESS);
}

static CUresult wait_or_query_event(CUevent e, bool waits) {
	CUresult r = enter_call(IN_CONTEXT, waits ? "cuEventSynchronize" : "cuEventQuery");
	if (r)
		return r;
	if (waits)
		count(WAITS);
	if (!find_resource(EVENT, e))
		return leave(INVALID_HANDLE);
	if (e->recorded)
		advance_host_clock(e->clock);
	return leave(current()->sticky_error);
}
API CUresult cuEventSynchronize(CUevent e) { return wait_or_query_event(e, true); }
API CUresult cuEventQuery(CUevent e) { return wait_or_query_event(e, false); }

API CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if (!ms || !find_resource(EVENT, a) || !find_resource(EVENT, b) || !a->recorded || !b->recorded || a->untimed || b->untimed)
		return leave(INVALID_HANDLE);
	*ms = (float)((b->time - a->time) * 1e3);
	return leave(SUCCESS);
}
