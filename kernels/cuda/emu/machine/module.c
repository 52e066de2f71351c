// Directives: the declarations of a module, kernel by kernel.
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INVALID_PTX = 218, NO_BINARY = 209, UNSUPPORTED_VERSION = 222, MAX_STATIC_SHARED = 48 << 10 };

static u32 round_up(u32 n, u32 to) { return to ? (n + to - 1) / to * to : n; }

// Declaration is a variable or a parameter: .align 16 .b8 name[64].
typedef struct {
	Token name;
	u32 align, size, element;
	bool unsized; // name[]: its size is set by the launch
} Declaration;

static Declaration parse_declaration(Parser *t) {
	Declaration d = {0};
	if (skip_if(t, ".align"))
		d.align = (u32)parse_integer(t);
	d.element = d.size = type_size(t, next_token(t));
	if (skip_if(t, ".ptr")) // a promise about the pointer, for compilers
		while (t->token.at[0] == '.')
			if (token_is(next_token(t), ".align"))
				parse_integer(t);
	d.name = next_token(t);
	if (skip_if(t, "[")) {
		d.unsized = next_is(t, "]");
		u64 n = d.unsized ? 0 : parse_integer(t);
		if (n > UINT32_MAX / 8 / d.size)
			parse_error(t, d.name, "too large");
		d.size *= (u32)n;
		expect(t, "]");
	}
	if (!d.align)
		d.align = d.element;
	if (d.align & (d.align - 1))
		parse_error(t, d.name, "an alignment of %u is no power of two", d.align);
	return d;
}

static u32 place_variable(Symbols *p, u32 *end, Declaration d) {
	u32 at = round_up(*end, d.align);
	add_symbol(p, d.name, at, d.size);
	*end = at + d.size;
	return at;
}

// parse_module_variable allocates a variable of the module and sets its initial value; the rest is zero.
static void parse_module_variable(Parser *t) {
	Declaration d = parse_declaration(t);
	Module *m = t->module;
	Allocation *a = allocate(d.size ? d.size : 1, "a variable of the module");
	memset(a->bytes, 0, a->size);
	memset(a->valid, 1, a->size);
	m->allocations = grow(m->allocations, sizeof *m->allocations * (size_t)(m->variables.n + 1));
	m->allocations[m->variables.n] = a;
	add_symbol(&m->variables, d.name, (u32)m->variables.n, d.size);
	if (skip_if(t, "=")) {
		bool list = skip_if(t, "{");
		for (u32 at = 0; !next_is(t, "}") && at + d.element <= d.size; at += d.element) {
			u64 v = parse_integer(t);
			memcpy(a->bytes + at, &v, d.element);
			if (!skip_if(t, ","))
				break;
		}
		if (list)
			expect(t, "}");
	}
	expect(t, ";");
}

static void parse_shared_variable(Parser *t) {
	Declaration d = parse_declaration(t);
	if (t->kernel && t->kernel->n)
		parse_error(t, d.name, "expected shared memory to be declared before the first instruction");
	if (d.unsized) { // it comes after all others
		add_symbol(&t->shared, d.name, UINT32_MAX, 0);
		if (d.align > t->dynamic_align)
			t->dynamic_align = d.align;
	} else {
		place_variable(&t->shared, &t->shared_bytes, d);
	}
	expect(t, ";");
}

static void parse_local_variable(Parser *t) {
	place_variable(&t->kernel->locals, &t->kernel->local_bytes, parse_declaration(t));
	expect(t, ";");
}

// declare_registers assigns declared registers their offsets in the register file of a warp.
static void declare_registers(Parser *t) {
	Kernel *k = t->kernel;
	bool predicate = next_is(t, ".pred");
	u32 size = predicate ? (next_token(t), 0) : type_size(t, next_token(t));
	do {
		Register r = {.name = next_token(t), .size = size};
		if (skip_if(t, "<")) {
			r.count = (int)parse_integer(t);
			expect(t, ">");
		}
		u32 n = r.count ? (u32)r.count : 1;
		if (r.count < 0 || n > 1 << 20 || t->n_registers == MAX_DECLARATIONS)
			parse_error(t, r.name, "too many registers");
		r.at = k->file_bytes = round_up(k->file_bytes, predicate ? 4 : 64);
		k->file_bytes += n * register_bytes(size);
		if (k->n_ranges % 64 == 0)
			k->ranges = grow(k->ranges, sizeof *k->ranges * (size_t)(k->n_ranges + 64));
		k->ranges[k->n_ranges++] = (Range){r.at, size, n};
		k->declared_registers += (int)(n * (size == 8 ? 2 : size != 0));
		t->registers[t->n_registers++] = r;
	} while (skip_if(t, ","));
	expect(t, ";");
}

static void skip_statement(Parser *t) {
	while (t->token.n && !next_is(t, ";"))
		next_token(t);
	expect(t, ";");
}

static void parse_directive(Parser *t) {
	Token w = next_token(t);
	if (token_is(w, ".reg"))
		declare_registers(t);
	else if (token_is(w, ".shared"))
		parse_shared_variable(t);
	else if (token_is(w, ".local"))
		parse_local_variable(t);
	else if (token_is(w, ".pragma"))
		skip_statement(t);
	else if (token_is(w, ".loc"))
		for (u32 line = w.line; t->token.n && t->token.line == line;)
			next_token(t);
	else
		parse_error(t, w, "no directive that this machine knows in a kernel");
}

// parse_body reads statements in braces; registers declared there end with it.
static void parse_body(Parser *t) {
	int outside = t->n_registers;
	expect(t, "{");
	while (!next_is(t, "}")) {
		if (!t->token.n)
			parse_error(t, t->token, "the text ends within a kernel");
		if (next_is(t, "{"))
			parse_body(t);
		else if (t->token.at[0] == '.')
			parse_directive(t);
		else
			decode(t);
	}
	expect(t, "}");
	t->n_registers = outside;
}

static void parse_parameters(Parser *t, Kernel *k) {
	if (!skip_if(t, "("))
		return;
	while (!next_is(t, ")")) {
		expect(t, ".param");
		place_variable(&k->parameters, &k->parameter_bytes, parse_declaration(t));
		if (!skip_if(t, ","))
			break;
	}
	expect(t, ")");
}

static void parse_limits(Parser *t, Kernel *k) {
	while (t->token.at[0] == '.') {
		Token w = next_token(t);
		u64 n = parse_integer(t);
		while (skip_if(t, ","))
			n *= parse_integer(t);
		if (token_is(w, ".maxntid") || token_is(w, ".reqntid"))
			k->max_threads = (u32)n;
		else if (!token_is(w, ".minnctapersm") && !token_is(w, ".maxnreg"))
			parse_error(t, w, "no directive that this machine knows before a kernel's body");
	}
}

// dynamic_start is the end of shared memory of fixed size, where the dynamic memory of a launch begins.
u32 dynamic_start(const Parser *t) { return round_up(t->shared_bytes, t->dynamic_align ? t->dynamic_align : 16); }

static void check_shared(Parser *t) {
	Kernel *k = t->kernel;
	k->shared_bytes = dynamic_start(t);
	if (k->shared_bytes > MAX_STATIC_SHARED)
		parse_error(t, t->token, "kernel %s has %u bytes of static shared memory, expected at most %d", k->name, k->shared_bytes,
			MAX_STATIC_SHARED);
}

static void parse_kernel(Parser *t) {
	Kernel *k = grow(NULL, sizeof *k);
	*k = (Kernel){.module = t->module, .file_bytes = FILE_FIRST, .max_dynamic = MAX_STATIC_SHARED};
	k->next = t->module->kernels;
	t->module->kernels = t->kernel = k;
	k->name = copy_token(next_token(t));
	t->n_registers = t->n_labels = 0;
	int module_shared = t->shared.n;
	u32 module_bytes = t->shared_bytes;
	parse_parameters(t, k);
	parse_limits(t, k);
	parse_body(t);
	link_branches(t);
	check_shared(t);
	if (!k->n)
		parse_error(t, t->token, "kernel %s has no instructions", k->name);
	while (t->shared.n > module_shared)
		free(t->shared.all[--t->shared.n].name);
	t->shared_bytes = module_bytes;
	t->kernel = NULL;
}

static void parse_version(Parser *t, int newest, int *status) {
	Token w = next_token(t);
	int major = 0, minor = 0;
	sscanf(w.at, "%d.%d", &major, &minor);
	t->module->version = major * 10 + minor;
	if (t->module->version > newest) {
		*status = UNSUPPORTED_VERSION;
		parse_error(t, w, "PTX %d.%d is newer than this driver, which knows PTX up to %d.%d", major, minor, newest / 10, newest % 10);
	}
}

static void parse_target(Parser *t, int capability, int *status) {
	Token w = next_token(t);
	t->module->target = token_starts_with(w, "sm_") ? atoi(w.at + 3) : 0;
	if (t->module->target > capability) {
		*status = NO_BINARY;
		parse_error(t, w, "code for sm_%d, and the card has compute capability %d.%d", t->module->target, capability / 10, capability % 10);
	}
	while (skip_if(t, ","))
		next_token(t);
}

static void parse_module(Parser *t, int newest, int capability, int *status) {
	if (!next_is(t, ".version"))
		parse_error(t, t->token, "PTX begins with .version");
	while (t->token.n) {
		Token w = next_token(t);
		if (token_is(w, ".version"))
			parse_version(t, newest, status);
		else if (token_is(w, ".target"))
			parse_target(t, capability, status);
		else if (token_is(w, ".address_size"))
			parse_integer(t);
		else if (token_is(w, ".visible") || token_is(w, ".weak") || token_is(w, ".extern"))
			continue;
		else if (token_is(w, ".entry"))
			parse_kernel(t);
		else if (token_is(w, ".global") || token_is(w, ".const"))
			parse_module_variable(t);
		else if (token_is(w, ".shared"))
			parse_shared_variable(t);
		else if (token_is(w, ".func"))
			parse_error(t, w, "functions that are called are not known here; let the compiler inline them (always_inline)");
		else
			parse_error(t, w, "no directive that this machine knows");
	}
}

// load_module reads PTX. If it finds something unknown, it returns NULL, the driver's error in status, and a line in the log.
Module *load_module(const char *text, int newest_version, int capability, char *log, size_t log_size, int *status) {
	Parser *t = grow(NULL, sizeof *t);
	Module *m = grow(NULL, sizeof *m);
	memset(t, 0, sizeof *t);
	*m = (Module){.text = strcpy(grow(NULL, strlen(text) + 1), text)};
	t->module = m;
	t->log = log;
	t->log_size = log_size;
	t->line = 1;
	*status = INVALID_PTX;
	if (setjmp(t->stop) == 0) {
		start_parser(t, m->text);
		parse_module(t, newest_version, capability, status);
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

static void free_symbols(Symbols *p) {
	while (p->n)
		free(p->all[--p->n].name);
	free(p->all);
}

void unload_module(Module *m) {
	while (m->kernels) {
		Kernel *k = m->kernels;
		m->kernels = k->next;
		free_symbols(&k->parameters);
		free_symbols(&k->locals);
		free(k->constants);
		free(k->ranges);
		free(k->code);
		free(k->name);
		free(k);
	}
	for (int n = 0; n < m->variables.n; n++)
		release(m->allocations[n]);
	free_symbols(&m->variables);
	free(m->allocations);
	free(m->text);
	free(m);
}
