#define _GNU_SOURCE
#include "kernels.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

enum { LINE = 64, HUGE_PAGE = 2 << 20 };

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
