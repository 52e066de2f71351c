// A fork-join thread pool: one caller submits a job at a time and works on it, the helper threads join in.
//
// The helpers are C threads. As goroutines in cgo calls, each would hold a P of Go's scheduler; when all Ps are held, Go's
// sysmon thread polls every few microseconds for one to retake, which costs a tenth of the cores' time.
//
// The protocol. All atomics are sequentially consistent, except the task counter.
//
//   generation  Written by the caller alone. Odd while a job is open to helpers, even between jobs, so +1 opens and +1
//               closes one. The job's plain fields (kernel, args, tasks, grain, the workers' scratch) are written while it
//               is even, when no helper looks at them; opening the job publishes them to a helper that reads the odd value.
//   next        The first task that nobody has claimed. Claims are relaxed compare-and-swaps: atomicity alone makes the
//               ranges disjoint, and the fields they refer to are ordered by generation and active. Which thread runs
//               which task is left to chance, and never changes a result.
//   active      How many helpers are between entering and leaving. A helper enters with active++ and then reads generation
//               again; the caller closes with generation++ and then reads active. In the total order of these four
//               accesses one side comes first: either the helper sees the job closed and touches nothing, or the caller
//               sees the helper and waits for it. The caller's read of active == 0 synchronises with each helper's
//               active--, so it sees all results of the helpers. It never waits for a helper that has not entered.
//   asleep      One for each helper. It sets asleep and then reads generation, both under the lock, before it waits on its
//               condition variable; the caller changes generation and then reads asleep. Again one side sees the other: the
//               helper does not wait, or the caller signals. It signals under the lock, which the helper holds from its
//               read of generation until it waits, so the signal cannot fall in between: no wake-up is lost.
//   waiting     The same between a caller that waits for the last helper (sets waiting, then reads active, under the lock)
//               and that helper (active--, then reads waiting, and signals under the lock).
//
// asleep and waiting are set by an exchange: a store is enough on processors, but QEMU's emulation of 64-bit Arm may do the
// following read before it, and then both sides sleep.
//
// generation wraps after 2^31 jobs. To mistake one job for another, a helper would have to be preempted for all of them
// between its two reads. Both sides spin for a moment before they sleep: see SPIN_MICROSECONDS.
#define _GNU_SOURCE
#include "kernels.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

typedef struct {
	grpo_pool *pool;
	void *scratch;
	pthread_t thread;
	pthread_cond_t wake; // generation has changed
	atomic_int asleep;
} worker;

// Fields that many threads write are on cache lines of their own, against false sharing.
struct grpo_pool {
	grpo_kernel *kernel;
	const void *args;
	int64_t tasks, grain;
	_Alignas(64) atomic_llong next;
	_Alignas(64) atomic_uint generation;
	_Alignas(64) atomic_int active;
	atomic_int waiting, closed; // closed: helpers end

	int64_t last_yield;   // when the caller was last in Go
	pthread_mutex_t lock; // of both kinds of condition variables
	pthread_cond_t done;  // active has become 0
	int workers;          // the first is the caller
	worker all[];
};

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

static void pause_spin(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

// Spins while the condition holds, for a limited time. It seldom reads the clock, which takes longer than checking the condition.
#define SPIN_WHILE(condition) \
	for (int64_t turn = 1, stop = now() + 1000 * SPIN_MICROSECONDS; (condition) && (turn % 16 || now() < stop); turn++) pause_spin()

// Claims a range of tasks: a share of those left, so that ranges are long at first and all workers end together
// (guided self-scheduling).
static int claim(grpo_pool *p, int64_t *from, int64_t *to)
{
	long long next = atomic_load_explicit(&p->next, memory_order_relaxed);
	int64_t count;
	do {
		int64_t left = p->tasks - next;
		if (left <= 0)
			return 0;
		count = left / (4 * p->workers);
		count = count > p->grain ? count : p->grain < left ? p->grain : left;
	} while (!atomic_compare_exchange_weak_explicit(&p->next, &next, next + count, memory_order_relaxed,
	                                                memory_order_relaxed));
	*from = next;
	*to = next + count;
	return 1;
}

static void *run_helper(void *arg)
{
	worker *w = arg;
	grpo_pool *p = w->pool;
	unsigned known_generation = 0;
	while (!atomic_load(&p->closed)) {
		SPIN_WHILE(atomic_load(&p->generation) == known_generation);
		if (atomic_load(&p->generation) == known_generation) {
			pthread_mutex_lock(&p->lock);
			atomic_exchange(&w->asleep, 1);
			while (atomic_load(&p->generation) == known_generation) pthread_cond_wait(&w->wake, &p->lock);
			atomic_store(&w->asleep, 0);
			pthread_mutex_unlock(&p->lock);
		}
		known_generation = atomic_load(&p->generation);
		if (known_generation % 2 == 0)
			continue; // that job is over
		atomic_fetch_add(&p->active, 1);
		int64_t from, to;
		if (atomic_load(&p->generation) == known_generation)
			while (claim(p, &from, &to)) p->kernel(p->args, w->scratch, from, to);
		if (atomic_fetch_sub(&p->active, 1) == 1 && atomic_load(&p->waiting)) {
			pthread_mutex_lock(&p->lock);
			pthread_cond_signal(&p->done);
			pthread_mutex_unlock(&p->lock);
		}
	}
	return NULL;
}

// Wakes the sleeping helpers among the first `workers` workers.
static void wake(grpo_pool *p, int workers)
{
	for (int i = 1; i < workers; i++)
		if (atomic_load(&p->all[i].asleep)) {
			pthread_mutex_lock(&p->lock);
			pthread_cond_signal(&p->all[i].wake);
			pthread_mutex_unlock(&p->lock);
		}
}

void grpo_pool_start(grpo_pool *p, grpo_kernel *kernel, const void *args, int64_t tasks, int64_t grain)
{
	p->kernel = kernel;
	p->args = args;
	p->tasks = tasks;
	p->grain = grain;
	atomic_store(&p->next, 0);
	int64_t claims = (tasks + grain - 1) / grain;
	if (p->workers == 1 || claims == 1)
		return; // generation stays even: the caller is enough
	atomic_fetch_add(&p->generation, 1);
	wake(p, claims < p->workers ? claims : p->workers);
}

int grpo_pool_work(grpo_pool *p)
{
	int64_t from, to;
	for (;;) {
		int64_t t = now();
		if (t - p->last_yield > 1000 * YIELD_MICROSECONDS) {
			p->last_yield = t;
			return 1;
		}
		if (!claim(p, &from, &to))
			break;
		p->kernel(p->args, p->all[0].scratch, from, to);
	}
	if (atomic_load(&p->generation) % 2 == 0)
		return 0;
	atomic_fetch_add(&p->generation, 1);
	SPIN_WHILE(atomic_load(&p->active));
	if (atomic_load(&p->active)) {
		pthread_mutex_lock(&p->lock);
		atomic_exchange(&p->waiting, 1);
		while (atomic_load(&p->active)) pthread_cond_wait(&p->done, &p->lock);
		atomic_store(&p->waiting, 0);
		pthread_mutex_unlock(&p->lock);
	}
	return 0;
}

void grpo_pool_scratch(grpo_pool *p, int worker, void *scratch) { p->all[worker].scratch = scratch; }

// Signals go to Go's threads, except the synchronous ones of a fault in a kernel.
static void block_signals(sigset_t *before)
{
	sigset_t blocked;
	sigfillset(&blocked);
	sigdelset(&blocked, SIGSEGV);
	sigdelset(&blocked, SIGBUS);
	sigdelset(&blocked, SIGILL);
	sigdelset(&blocked, SIGFPE);
	pthread_sigmask(SIG_SETMASK, &blocked, before);
}

static void stop(grpo_pool *p, int started)
{
	atomic_store(&p->closed, 1);
	atomic_fetch_add(&p->generation, 2); // a change, and still even
	wake(p, started);
	for (int i = 1; i < started; i++) pthread_join(p->all[i].thread, NULL);
	grpo_free(p, sizeof *p + p->workers * sizeof(worker));
}

void grpo_pool_close(grpo_pool *p) { stop(p, p->workers); }

grpo_pool *grpo_pool_open(int workers)
{
	grpo_pool *p = grpo_alloc(sizeof *p + workers * sizeof(worker));
	if (!p)
		return NULL;
	p->workers = workers;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->done, NULL);
	sigset_t before;
	block_signals(&before);
	int started = 1;
	for (; started < workers; started++) {
		worker *w = p->all + started;
		w->pool = p;
		pthread_cond_init(&w->wake, NULL);
		if (pthread_create(&w->thread, NULL, run_helper, w))
			break;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (started < workers) {
		stop(p, started);
		return NULL;
	}
	return p;
}
