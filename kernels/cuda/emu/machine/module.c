// Directives: the declarations of a module, kernel by kernel.
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INVALID_PTX = 218, NO_BINARY = 209, UNSUPPORTED_VERSION = 222, MOST_STATIC_SHARED = 48 << 10 };

static u32 round_up(u32 n, u32 to) { return to ? (n + to - 1) / to * to : n; }

// Declared is a variable or a parameter: .align 16 .b8 name[64].
typedef struct {
	Word name;
	u32 align, size, element;
	bool open; // name[]: its size is set by the launch
} Declared;

static Declared take_declared(Loader *t) {
	Declared d = {0};
	if (skip_if(t, ".align"))
		d.align = (u32)take_integer(t);
	d.element = d.size = type_size(t, take(t));
	if (skip_if(t, ".ptr")) // a promise about the pointer, for compilers
		while (t->word.at[0] == '.')
			if (same(take(t), ".align"))
				take_integer(t);
	d.name = take(t);
	if (skip_if(t, "[")) {
		d.open = next_is(t, "]");
		u64 n = d.open ? 0 : take_integer(t);
		if (n > UINT32_MAX / 8 / d.size)
			refuse(t, d.name, "too large");
		d.size *= (u32)n;
		expect(t, "]");
	}
	if (!d.align)
		d.align = d.element;
	if (d.align & (d.align - 1))
		refuse(t, d.name, "an alignment of %u is no power of two", d.align);
	return d;
}

static u32 place(Places *p, u32 *end, Declared d) {
	u32 at = round_up(*end, d.align);
	add_place(p, d.name, at, d.size);
	*end = at + d.size;
	return at;
}

// module_variable allocates a variable of the module and sets its initial value; the rest is zero.
static void module_variable(Loader *t) {
	Declared d = take_declared(t);
	Module *m = t->module;
	Allocation *a = allocate(d.size ? d.size : 1, "a variable of the module");
	memset(a->bytes, 0, a->size);
	memset(a->valid, 1, a->size);
	m->allocations = grow(m->allocations, sizeof *m->allocations * (size_t)(m->variables.n + 1));
	m->allocations[m->variables.n] = a;
	add_place(&m->variables, d.name, (u32)m->variables.n, d.size);
	if (skip_if(t, "=")) {
		bool list = skip_if(t, "{");
		for (u32 at = 0; !next_is(t, "}") && at + d.element <= d.size; at += d.element) {
			u64 v = take_integer(t);
			memcpy(a->bytes + at, &v, d.element);
			if (!skip_if(t, ","))
				break;
		}
		if (list)
			expect(t, "}");
	}
	expect(t, ";");
}

static void shared_variable(Loader *t) {
	Declared d = take_declared(t);
	if (t->kernel && t->kernel->n)
		refuse(t, d.name, "expected shared memory to be declared before the first instruction");
	if (d.open) { // it comes after all others
		add_place(&t->shared, d.name, UINT32_MAX, 0);
		if (d.align > t->dynamic_align)
			t->dynamic_align = d.align;
	} else {
		place(&t->shared, &t->shared_bytes, d);
	}
	expect(t, ";");
}

static void local_variable(Loader *t) {
	place(&t->kernel->locals, &t->kernel->local_bytes, take_declared(t));
	expect(t, ";");
}

// registers assigns declared registers their offsets in the register file of a warp.
static void registers(Loader *t) {
	Kernel *k = t->kernel;
	bool predicate = next_is(t, ".pred");
	u32 size = predicate ? (take(t), 0) : type_size(t, take(t));
	do {
		Register r = {.name = take(t), .size = size};
		if (skip_if(t, "<")) {
			r.count = (int)take_integer(t);
			expect(t, ">");
		}
		u32 n = r.count ? (u32)r.count : 1;
		if (r.count < 0 || n > 1 << 20 || t->n_registers == MOST_DECLARATIONS)
			refuse(t, r.name, "too many registers");
		r.at = k->file_bytes = round_up(k->file_bytes, predicate ? 4 : 64);
		k->file_bytes += n * room_of(size);
		if (k->n_ranges % 64 == 0)
			k->ranges = grow(k->ranges, sizeof *k->ranges * (size_t)(k->n_ranges + 64));
		k->ranges[k->n_ranges++] = (Range){r.at, size, n};
		k->most_registers += (int)(n * (size == 8 ? 2 : size != 0));
		t->registers[t->n_registers++] = r;
	} while (skip_if(t, ","));
	expect(t, ";");
}

static void skip_statement(Loader *t) {
	while (t->word.n && !next_is(t, ";"))
		take(t);
	expect(t, ";");
}

static void directive(Loader *t) {
	Word w = take(t);
	if (same(w, ".reg"))
		registers(t);
	else if (same(w, ".shared"))
		shared_variable(t);
	else if (same(w, ".local"))
		local_variable(t);
	else if (same(w, ".pragma"))
		skip_statement(t);
	else if (same(w, ".loc"))
		for (u32 line = w.line; t->word.n && t->word.line == line;)
			take(t);
	else
		refuse(t, w, "no directive that this machine knows in a kernel");
}

// body reads statements in braces; registers declared there end with it.
static void body(Loader *t) {
	int outside = t->n_registers;
	expect(t, "{");
	while (!next_is(t, "}")) {
		if (!t->word.n)
			refuse(t, t->word, "the text ends within a kernel");
		if (next_is(t, "{"))
			body(t);
		else if (t->word.at[0] == '.')
			directive(t);
		else
			decode(t);
	}
	expect(t, "}");
	t->n_registers = outside;
}

static void parameters(Loader *t, Kernel *k) {
	if (!skip_if(t, "("))
		return;
	while (!next_is(t, ")")) {
		expect(t, ".param");
		place(&k->parameters, &k->parameter_bytes, take_declared(t));
		if (!skip_if(t, ","))
			break;
	}
	expect(t, ")");
}

static void limits(Loader *t, Kernel *k) {
	while (t->word.at[0] == '.') {
		Word w = take(t);
		u64 n = take_integer(t);
		while (skip_if(t, ","))
			n *= take_integer(t);
		if (same(w, ".maxntid") || same(w, ".reqntid"))
			k->most_threads = (u32)n;
		else if (!same(w, ".minnctapersm") && !same(w, ".maxnreg"))
			refuse(t, w, "no directive that this machine knows before a kernel's body");
	}
}

// dynamic_start is the end of shared memory of fixed size, where the dynamic memory of a launch begins.
u32 dynamic_start(const Loader *t) { return round_up(t->shared_bytes, t->dynamic_align ? t->dynamic_align : 16); }

static void check_shared(Loader *t) {
	Kernel *k = t->kernel;
	k->shared_bytes = dynamic_start(t);
	if (k->shared_bytes > MOST_STATIC_SHARED)
		refuse(t, t->word, "kernel %s has %u bytes of static shared memory, expected at most %d", k->name, k->shared_bytes,
			MOST_STATIC_SHARED);
}

static void kernel(Loader *t) {
	Kernel *k = grow(NULL, sizeof *k);
	*k = (Kernel){.module = t->module, .file_bytes = FILE_FIRST, .most_dynamic = MOST_STATIC_SHARED};
	k->next = t->module->kernels;
	t->module->kernels = t->kernel = k;
	k->name = copy_of(take(t));
	t->n_registers = t->n_labels = 0;
	int module_shared = t->shared.n;
	u32 module_bytes = t->shared_bytes;
	parameters(t, k);
	limits(t, k);
	body(t);
	link_branches(t);
	check_shared(t);
	if (!k->n)
		refuse(t, t->word, "kernel %s has no instructions", k->name);
	while (t->shared.n > module_shared)
		free(t->shared.all[--t->shared.n].name);
	t->shared_bytes = module_bytes;
	t->kernel = NULL;
}

static void version(Loader *t, int newest, int *status) {
	Word w = take(t);
	int major = 0, minor = 0;
	sscanf(w.at, "%d.%d", &major, &minor);
	t->module->version = major * 10 + minor;
	if (t->module->version > newest) {
		*status = UNSUPPORTED_VERSION;
		refuse(t, w, "PTX %d.%d is newer than this driver, which knows PTX up to %d.%d", major, minor, newest / 10, newest % 10);
	}
}

static void target(Loader *t, int capability, int *status) {
	Word w = take(t);
	t->module->target = begins(w, "sm_") ? atoi(w.at + 3) : 0;
	if (t->module->target > capability) {
		*status = NO_BINARY;
		refuse(t, w, "code for sm_%d, and the card has compute capability %d.%d", t->module->target, capability / 10, capability % 10);
	}
	while (skip_if(t, ","))
		take(t);
}

static void statements(Loader *t, int newest, int capability, int *status) {
	if (!next_is(t, ".version"))
		refuse(t, t->word, "PTX begins with .version");
	while (t->word.n) {
		Word w = take(t);
		if (same(w, ".version"))
			version(t, newest, status);
		else if (same(w, ".target"))
			target(t, capability, status);
		else if (same(w, ".address_size"))
			take_integer(t);
		else if (same(w, ".visible") || same(w, ".weak") || same(w, ".extern"))
			continue;
		else if (same(w, ".entry"))
			kernel(t);
		else if (same(w, ".global") || same(w, ".const"))
			module_variable(t);
		else if (same(w, ".shared"))
			shared_variable(t);
		else if (same(w, ".func"))
			refuse(t, w, "functions that are called are not known here; let the compiler inline them (always_inline)");
		else
			refuse(t, w, "no directive that this machine knows");
	}
}

// load_module reads PTX. If it finds something unknown, it returns NULL, the driver's error in status, and a line in the log.
Module *load_module(const char *text, int newest_version, int capability, char *log, size_t room, int *status) {
	Loader *t = grow(NULL, sizeof *t);
	Module *m = grow(NULL, sizeof *m);
	memset(t, 0, sizeof *t);
	*m = (Module){.text = strcpy(grow(NULL, strlen(text) + 1), text)};
	t->module = m;
	t->log = log;
	t->log_room = room;
	t->line = 1;
	*status = INVALID_PTX;
	if (setjmp(t->stop) == 0) {
		start(t, m->text);
		statements(t, newest_version, capability, status);
		*status = 0;
	} else {
		unload_module(m);
		m = NULL;
	}
	while (t->shared.n)
		free(t->shared.all[--t->shared.n].name);
	free(t->shared.all);
	free(t->labels);
	free(t->targets);
	free(t);
	return m;
}

static void free_places(Places *p) {
	while (p->n)
		free(p->all[--p->n].name);
	free(p->all);
}

void unload_module(Module *m) {
	while (m->kernels) {
		Kernel *k = m->kernels;
		m->kernels = k->next;
		free_places(&k->parameters);
		free_places(&k->locals);
		free(k->constants);
		free(k->ranges);
		free(k->code);
		free(k->name);
		free(k);
	}
	for (int n = 0; n < m->variables.n; n++)
		release(m->allocations[n]);
	free_places(&m->variables);
	free(m->allocations);
	free(m->text);
	free(m);
}
