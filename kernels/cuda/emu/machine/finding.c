// Findings: one line each, on standard error and in the file named by GRPO_EMU_REPORT.
#include "machine.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int printed;

const char *kind_name(Kind kind) {
	static const char *names[KINDS] = {"out of bounds", "use after free", "misaligned access", "uninitialised read",
		"race in shared memory", "race between blocks", "race between streams", "divergent barrier", "wrong lane mask", "missing wait",
		"impossible launch", "endless kernel", "leak", "host memory in use", "trap"};
	return names[kind];
}

int count_findings(void) { return printed; }

static void print_quoted(FILE *f, const char *s) {
	for (fputc('"', f); *s; s++)
		if (*s == '"' || *s == '\\')
			fprintf(f, "\\%c", *s);
		else if ((u8)*s < ' ')
			fputc(' ', f);
		else
			fputc(*s, f);
	fputc('"', f);
}

void print_finding(Kind kind, const char *text) {
	printed++;
	fprintf(stderr, "emulated device: %s: %s\n", kind_name(kind), text);
	const char *path = getenv("GRPO_EMU_REPORT");
	FILE *f = path && *path ? fopen(path, "a") : NULL;
	if (f) {
		fputs("{\"kind\":", f);
		print_quoted(f, kind_name(kind));
		fputs(",\"message\":", f);
		print_quoted(f, text);
		fputs("}\n", f);
		fclose(f);
	}
}

// report ends the block. Of the findings of several blocks, a launch reports that of the lowest block, whatever the order in time.
void report(Warp *w, const Ins *i, int lane, Kind kind, const char *form, ...) {
	Block *b = w->block;
	Launch *l = b->launch;
	u32 thread = w->id * LANES + (u32)lane, x = thread % l->block[0], y = thread / l->block[0] % l->block[1];
	char what[500];
	va_list more;
	va_start(more, form);
	vsnprintf(what, sizeof what, form, more);
	va_end(more);
	char code[128];
	int n = 0;
	for (int c = 0; c < i->line_length && n < 120; c++) // runs of space become one
		if (!strchr(" \t\n\r", i->text[c]))
			code[n++] = i->text[c];
		else if (n && code[n - 1] != ' ')
			code[n++] = ' ';
	pthread_mutex_lock(&lock);
	if (b->number < l->failed) {
		l->failed = b->number;
		l->finding->kind = kind;
		snprintf(l->finding->text, sizeof l->finding->text,
			"kernel %s, PTX line %u (%.*s), block (%u,%u,%u), thread (%u,%u,%u), lane %d of warp %u: %s", l->kernel->name, i->line, n, code,
			b->at[0], b->at[1], b->at[2], x, y, thread / l->block[0] / l->block[1], lane, w->id, what);
	}
	pthread_mutex_unlock(&lock);
	longjmp(b->stop, 1);
}
