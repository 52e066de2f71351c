#define _GNU_SOURCE
#include "kernels.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

enum { LINE = 64, HUGE_PAGE = 2 << 20 };

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 // since Linux 5.14
#endif

// A mapping gets memory only when its pages are written. Touching them now makes a lack of memory show now, and not hours into a run.
static void touch(char *p, size_t bytes)
{
	enum { PAGE = 4096 };
#ifdef __linux__
	if (!madvise(p, bytes, MADV_POPULATE_WRITE))
		return;
#endif
	for (size_t at = 0; at < bytes; at += PAGE)
		((volatile char *)p)[at] = 0;
}

// A mapping starts on a huge page, so that all of it can be in huge pages.
static void *map(size_t bytes)
{
	char *p = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	size_t before = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
	if (before)
		munmap(p, before);
	if (HUGE_PAGE - before)
		munmap(p + before + bytes, HUGE_PAGE - before);
#ifdef MADV_HUGEPAGE
	madvise(p + before, bytes, MADV_HUGEPAGE);
#endif
	touch(p + before, bytes);
	return p + before;
}

static size_t whole_pages(size_t bytes) { return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE; }

void *grpo_alloc(size_t bytes)
{
	if (bytes >= HUGE_PAGE)
		return map(whole_pages(bytes));
	void *p = NULL;
	if (posix_memalign(&p, LINE, bytes + LINE))
		return NULL;
	return memset(p, 0, bytes + LINE);
}

void grpo_free(void *p, size_t bytes)
{
	if (bytes >= HUGE_PAGE)
		munmap(p, whole_pages(bytes));
	else
		free(p);
}
