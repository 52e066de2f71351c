// The workers: threads of C, not of Go. A goroutine that computes in C holds one of Go's processors; where all
// are held, Go's monitor wakes every few microseconds to see which it can take back, and steals a tenth of the
// time of the cores. So only the caller is a goroutine.
//
// Tasks are drawn from one counter, so who does what is left to chance, and never changes a result.
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
	pthread_cond_t wake;
	atomic_int asleep;
} worker;

// turn counts up twice for each job: odd while it is open to helpers. A helper that has entered (active) is
// waited for; one that comes late just goes back. So nobody waits for a sleeper.
struct grpo_pool {
	grpo_kernel *kernel;
	const void *args;
	int64_t tasks, grain;
	_Alignas(64) atomic_llong next;
	_Alignas(64) atomic_uint turn;
	_Alignas(64) atomic_int active;
	atomic_int waiting, closed; // the caller sleeps until active is 0; helpers shall end

	int64_t breath; // when the caller was last in Go
	pthread_mutex_t lock; // of all sleep
	pthread_cond_t done;
	int workers; // the first is the caller
	worker all[];
};

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

// Waits a little for what is likely to happen soon.
#define WATCH_WHILE(condition) \
	for (int64_t end = now() + 1000 * WATCH_MICROSECONDS; (condition) && now() < end;) relax()

// Draws a run of tasks: a share of what is left, so that runs are long at first and all workers end together.
static int draw(grpo_pool *p, int64_t *from, int64_t *to)
{
	long long next = atomic_load_explicit(&p->next, memory_order_relaxed);
	int64_t run;
	do {
		int64_t left = p->tasks - next;
		if (left <= 0)
			return 0;
		run = left / (4 * p->workers);
		run = run > p->grain ? run : p->grain < left ? p->grain : left;
	} while (!atomic_compare_exchange_weak_explicit(&p->next, &next, next + run, memory_order_relaxed,
	                                                memory_order_relaxed));
	*from = next;
	*to = next + run;
	return 1;
}

static void *help(void *arg)
{
	worker *w = arg;
	grpo_pool *p = w->pool;
	unsigned seen = 0;
	while (!atomic_load(&p->closed)) {
		WATCH_WHILE(atomic_load(&p->turn) == seen);
		if (atomic_load(&p->turn) == seen) {
			pthread_mutex_lock(&p->lock);
			atomic_store(&w->asleep, 1);
			while (atomic_load(&p->turn) == seen) pthread_cond_wait(&w->wake, &p->lock);
			atomic_store(&w->asleep, 0);
			pthread_mutex_unlock(&p->lock);
		}
		seen = atomic_load(&p->turn);
		if (seen % 2 == 0)
			continue;
		atomic_fetch_add(&p->active, 1);
		int64_t from, to;
		if (atomic_load(&p->turn) == seen)
			while (draw(p, &from, &to)) p->kernel(p->args, w->scratch, from, to);
		if (atomic_fetch_sub(&p->active, 1) == 1 && atomic_load(&p->waiting)) {
			pthread_mutex_lock(&p->lock);
			pthread_cond_signal(&p->done);
			pthread_mutex_unlock(&p->lock);
		}
	}
	return NULL;
}

static void rouse(grpo_pool *p, int workers)
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
	int64_t runs = (tasks + grain - 1) / grain;
	if (p->workers == 1 || runs == 1)
		return; // the turn stays even: nobody needs to help
	atomic_fetch_add(&p->turn, 1);
	rouse(p, runs < p->workers ? runs : p->workers);
}

int grpo_pool_work(grpo_pool *p)
{
	int64_t from, to;
	for (;;) {
		int64_t t = now();
		if (t - p->breath > 1000 * BREATH_MICROSECONDS) {
			p->breath = t;
			return 1;
		}
		if (!draw(p, &from, &to))
			break;
		p->kernel(p->args, p->all[0].scratch, from, to);
	}
	if (atomic_load(&p->turn) % 2 == 0)
		return 0;
	atomic_fetch_add(&p->turn, 1);
	WATCH_WHILE(atomic_load(&p->active));
	if (atomic_load(&p->active)) {
		pthread_mutex_lock(&p->lock);
		atomic_store(&p->waiting, 1);
		while (atomic_load(&p->active)) pthread_cond_wait(&p->done, &p->lock);
		atomic_store(&p->waiting, 0);
		pthread_mutex_unlock(&p->lock);
	}
	return 0;
}

void grpo_pool_scratch(grpo_pool *p, int worker, void *scratch) { p->all[worker].scratch = scratch; }

// Signals are Go's business, except those that say that a kernel has failed.
static void block_signals(sigset_t *before)
{
	sigset_t most;
	sigfillset(&most);
	sigdelset(&most, SIGSEGV);
	sigdelset(&most, SIGBUS);
	sigdelset(&most, SIGILL);
	sigdelset(&most, SIGFPE);
	pthread_sigmask(SIG_SETMASK, &most, before);
}

static void end(grpo_pool *p, int started)
{
	atomic_store(&p->closed, 1);
	atomic_fetch_add(&p->turn, 2);
	rouse(p, started);
	for (int i = 1; i < started; i++) pthread_join(p->all[i].thread, NULL);
	grpo_free(p, sizeof *p + p->workers * sizeof(worker));
}

void grpo_pool_close(grpo_pool *p) { end(p, p->workers); }

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
		if (pthread_create(&w->thread, NULL, help, w))
			break;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (started < workers) {
		end(p, started);
		return NULL;
	}
	return p;
}
