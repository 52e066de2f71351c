// Streams and events. Operations run at once, in the order of the calls; the model is of who may rely on their order. Each stream numbers
// its operations, and knows up to which number the operations of every other stream precede it: from the events that it waited for, and
// from what the host had waited for when the operation was called. The host is treated as one more stream.
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RING = 1 << 16 };

static u32 knows[ACTORS][ACTORS], sequence[ACTORS], last_operation;
static Operation ring[RING];
static struct Stream streams[MOST_STREAMS]; // the first is the default stream
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

static void join(u32 *into, const u32 *from) {
	for (u32 t = 0; t < ACTORS; t++)
		into[t] = from[t] > into[t] ? from[t] : into[t];
}

bool is_default(const struct Stream *s) { return s->index == 0; }

CUresult get_stream(CUstream handle, struct Stream **s) {
	uintptr_t v = (uintptr_t)handle;
	if (v <= 2) { // 1 and 2 are the legacy and the per-thread default stream
		*s = &default_stream;
		return SUCCESS;
	}
	if (handle < streams || handle >= streams + MOST_STREAMS || !handle->used)
		return INVALID_HANDLE;
	*s = handle;
	return SUCCESS;
}

// begin_operation numbers an operation. The default stream and those not created non-blocking wait for each other.
u32 begin_operation(struct Stream *s) {
	join(knows[s->index], knows[HOST]);
	if (is_default(s)) {
		for (u32 t = 1; t < MOST_STREAMS; t++)
			if (streams[t].used && !streams[t].non_blocking)
				join(knows[0], knows[t]);
	} else if (!s->non_blocking) {
		join(knows[s->index], knows[0]);
	}
	knows[s->index][s->index] = ++sequence[s->index];
	if (ring[last_operation % RING].stream != s->index)
		lone_since = last_operation + 1;
	ring[++last_operation % RING] = (Operation){s->index, sequence[s->index]};
	return last_operation;
}

bool operation_is_ordered(u32 earlier, u32 later) {
	Operation e = ring[earlier % RING], l = ring[later % RING];
	return later - earlier >= RING || e.stream == l.stream || knows[l.stream][e.stream] >= e.sequence;
}

void describe_operations(u32 earlier, u32 later, char *into, size_t room) {
	Operation e = ring[earlier % RING], l = ring[later % RING];
	snprintf(into, room, "stream %u, of which this is operation %u, did not wait for operation %u of stream %u, which touched them; record "
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

// learn is called at every wait of the host: copies that have ended arrive.
static void learn(const u32 *from) {
	join(knows[HOST], from);
	for (Deferred **p = &deferred; *p;) {
		Deferred *d = *p;
		if (d->sequence > knows[HOST][d->stream]) {
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
	for (u32 t = 0; t < MOST_STREAMS; t++)
		all = all && knows[HOST][t] == sequence[t];
	if (all)
		settled_operation = last_operation;
}

void host_waits(const struct Stream *s) { learn(knows[s->index]); }

void host_waits_for_all(void) {
	u32 all[ACTORS];
	memcpy(all, sequence, sizeof all);
	learn(all);
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
	for (u32 t = 1; t < MOST_STREAMS; t++)
		if (!streams[t].used) {
			streams[t] = (struct Stream){t, true, flags == 1, priority, current()};
			own(STREAM, *s = &streams[t], 0);
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
	disown(owned(STREAM, t));
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

// settle is for waits and for queries of a stream, since operations are done when they are called.
static CUresult settle(CUstream s, bool waits) {
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
	return leave(r ? r : current()->stuck);
}
API CUresult cuStreamSynchronize(CUstream s) { return settle(s, true); }
API CUresult cuStreamQuery(CUstream s) { return settle(s, false); }

API CUresult cuCtxSynchronize(void) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	count(WAITS);
	host_waits_for_all();
	return leave(current()->stuck);
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
	own(EVENT, *e, 0);
	return leave(SUCCESS);
}

API CUresult cuEventDestroy_v2(CUevent e) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	Owned *o = owned(EVENT, e);
	if (o) {
		disown(o);
		free(e);
	}
	return leave(o ? SUCCESS : INVALID_HANDLE);
}

API CUresult cuEventRecord(CUevent e, CUstream stream) {
	struct Stream *s;
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if ((r = get_stream(stream, &s)) || !owned(EVENT, e))
		return leave(INVALID_HANDLE);
	begin_operation(s);
	memcpy(e->knows, knows[s->index], sizeof e->knows);
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
	if ((r = get_stream(stream, &s)) || !owned(EVENT, e))
		return leave(INVALID_HANDLE);
	if (e->recorded)
		join(knows[s->index], e->knows);
	return leave(SUCCESS);
}

static CUresult settle_event(CUevent e, bool waits) {
	CUresult r = enter_call(IN_CONTEXT, waits ? "cuEventSynchronize" : "cuEventQuery");
	if (r)
		return r;
	if (waits)
		count(WAITS);
	if (!owned(EVENT, e))
		return leave(INVALID_HANDLE);
	if (e->recorded)
		learn(e->knows);
	return leave(current()->stuck);
}
API CUresult cuEventSynchronize(CUevent e) { return settle_event(e, true); }
API CUresult cuEventQuery(CUevent e) { return settle_event(e, false); }

API CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if (!ms || !owned(EVENT, a) || !owned(EVENT, b) || !a->recorded || !b->recorded || a->untimed || b->untimed)
		return leave(INVALID_HANDLE);
	*ms = (float)((b->time - a->time) * 1e3);
	return leave(SUCCESS);
}
