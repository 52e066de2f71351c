// Instructions with an address: their names have many optional parts, which are read one by one. Cache hints are ignored.
#include "decode.h"

#include <string.h>

Handler load, load_parameter, store, update_add, update_min_u, update_min_s, update_max_u, update_max_s, update_and, update_or,
	update_xor, update_exchange, update_cas, copy_async, commit_group, wait_group, wait_all, load_matrix, load_matrix_transposed, nothing;

static bool is_hint(Token w) {
	static const char *hints[] = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak", "cta", "gpu", "sys"};
	for (size_t n = 0; n < sizeof hints / sizeof *hints; n++)
		if (token_is(w, hints[n]))
			return true;
	return token_starts_with(w, "L1::") || token_starts_with(w, "L2::");
}

static bool is_strong(Token w) {
	static const char *names[] = {"volatile", "relaxed", "acquire", "release", "acq_rel"};
	for (size_t n = 0; n < sizeof names / sizeof *names; n++)
		if (token_is(w, names[n]))
			return true;
	return false;
}

static bool parse_space(Token w, u8 *into) {
	static const struct { const char *name; u8 space; } all[] = {{"global", GLOBAL}, {"const", GLOBAL}, {"shared", SHARED},
		{"shared::cta", SHARED}, {"local", LOCAL}, {"param", PARAM}};
	for (size_t n = 0; n < sizeof all / sizeof *all; n++)
		if (token_is(w, all[n].name)) {
			*into = all[n].space;
			return true;
		}
	return false;
}

// parse_type reads u32 and the like; kind is b for bit types, or f, s, u.
static bool parse_type(Token w, Ins *i, char *kind) {
	static const char *sizes[] = {"8", "16", "32", "64"};
	for (u32 n = 0; n < 4 && w.n > 1 && strchr("busf", w.at[0]); n++)
		if (w.n == 1 + (int)strlen(sizes[n]) && !memcmp(w.at + 1, sizes[n], strlen(sizes[n]))) {
			i->bytes = (u8)(1u << n);
			i->is_signed = w.at[0] == 's';
			*kind = w.at[0];
			return true;
		}
	return false;
}

static void set_address_operand(Parser *t, Statement *s, int n, int slot) {
	const Operand *o = &s->operand[n];
	if (n >= s->n || o->kind != 'a')
		parse_error(t, s->name, "expected an address as operand %d", n + 1);
	Ins *i = s->ins;
	i->operand[slot] = o->at;
	i->reads |= (u16)((o->size != 0) << slot);
	if (slot == 0) {
		i->variant = (u8)o->size;
		i->offset = o->offset;
	} else if (o->size != 8 || o->offset < INT32_MIN || o->offset > INT32_MAX) {
		parse_error(t, s->name, "expected an address in a 64-bit register");
	}
}

// set_value_operands stores a register or a vector of registers as operands from 1 on, after the address. Registers may be wider than the
// element in memory.
static void set_value_operands(Parser *t, Statement *s, int n, u16 *whose) {
	Ins *i = s->ins;
	Operand *o = &s->operand[n];
	u32 next = 1;
	if (o->kind == 'v') {
		if (o->n != i->count)
			parse_error(t, s->name, "expected a vector of %d", i->count);
		for (int e = 0; e < o->n; e++)
			if (o->part[e].kind == 'r' && o->part[e].size > i->width)
				i->width = (u8)o->part[e].size;
		if (!i->width)
			i->width = i->bytes;
		set_vector_operands(t, o, i->count, i->width, i, &next);
	} else {
		if (i->count != 1)
			parse_error(t, s->name, "expected a vector of %d", i->count);
		i->width = o->kind == 'r' ? (u8)o->size : i->bytes;
		i->operand[1] = operand_offset(t, o, i->width);
	}
	*whose |= (u16)((2u << i->count) - 2);
	if (i->width < i->bytes)
		parse_error(t, s->name, "a register of %d bytes for %d bytes of memory", i->width, i->bytes);
}

// ld.global.nc.L1::no_allocate.v4.f32 and all other loads and stores.
static void load_or_store(Parser *t, Statement *s, const Parts *p) {
	Ins *i = s->ins;
	bool stores = token_is(p->part[0], "st"), typed = false;
	char kind = 0;
	i->space = GENERIC;
	i->count = 1;
	for (int n = 1; n < p->n; n++) {
		Token w = p->part[n];
		if (token_is(w, "v2") || token_is(w, "v4"))
			i->count = (u8)(w.at[1] - '0');
		else if (is_strong(w))
			i->strong = true;
		else if (n + 1 == p->n && parse_type(w, i, &kind))
			typed = true;
		else if (!parse_space(w, &i->space) && !is_hint(w))
			parse_error(t, s->name, "no memory access that this machine knows: \".%.*s\"", w.n, w.at);
	}
	if (!typed || s->n != 2 || (stores && i->space == PARAM))
		parse_error(t, s->name, "no memory access that this machine knows");
	set_address_operand(t, s, stores ? 0 : 1, 0);
	set_value_operands(t, s, stores ? 1 : 0, stores ? &i->reads : &i->writes);
	i->run = stores ? store : i->space == PARAM ? load_parameter : load;
	if (i->space == PARAM && (i->variant || i->offset < 0 || i->offset + i->count * i->bytes > t->kernel->parameter_bytes))
		parse_error(t, s->name, "no parameter is there");
}

static Handler *atomic_handler(Token op, char kind) {
	static const struct { const char *name; Handler *is_unsigned, *is_signed; } all[] = {{"add", update_add, update_add},
		{"min", update_min_u, update_min_s}, {"max", update_max_u, update_max_s}, {"and", update_and, update_and},
		{"or", update_or, update_or}, {"xor", update_xor, update_xor}, {"exch", update_exchange, update_exchange},
		{"cas", update_cas, update_cas}};
	for (size_t n = 0; n < sizeof all / sizeof *all; n++)
		if (token_is(op, all[n].name))
			return kind == 's' ? all[n].is_signed : all[n].is_unsigned;
	return NULL;
}

// atom returns the old value, red does not. Sums of floats would depend on the order of blocks, so they are refused.
static void atomic_access(Parser *t, Statement *s, const Parts *p) {
	Ins *i = s->ins;
	bool gives = token_is(p->part[0], "atom");
	int at = gives ? 1 : 0, inputs;
	char kind = 0;
	i->space = GENERIC;
	for (int n = 1; n < p->n; n++) {
		Token w = p->part[n];
		if (n + 1 == p->n ? parse_type(w, i, &kind) : is_strong(w) || parse_space(w, &i->space) || is_hint(w))
			continue;
		Handler *h = atomic_handler(w, p->part[p->n - 1].at[0]);
		if (!h || i->run)
			parse_error(t, s->name, "no atomic operation that this machine knows");
		i->run = h;
	}
	if (kind == 'f' && i->run == update_add)
		parse_error(t, s->name, "an atomic sum of floats depends on the order of blocks; sum in a fixed order instead");
	inputs = i->run == update_cas ? 2 : 1;
	if (!i->run || i->bytes < 4 || s->n != at + 1 + inputs || i->space == PARAM || i->space == LOCAL)
		parse_error(t, s->name, "no atomic operation that this machine knows");
	i->strong = true;
	i->width = i->bytes;
	set_address_operand(t, s, at, 0);
	i->operand[1] = gives && s->operand[0].kind != '_' ? operand_offset(t, &s->operand[0], i->bytes) : SINK;
	i->writes = 2;
	i->reads |= (u16)((4u << inputs) - 4);
	for (int n = 0; n < inputs; n++)
		i->operand[2 + n] = operand_offset(t, &s->operand[at + 1 + n], i->bytes);
}

// cp.async.ca.shared.global [to], [from], 16, bytes: with fewer bytes than 16, the rest is zero.
static void async_copy(Parser *t, Statement *s, const Parts *p) {
	Ins *i = s->ins;
	Token kind = p->n > 2 ? p->part[2] : (Token){"", 0, 0};
	if (token_is(kind, "commit_group") || token_is(kind, "wait_all") || token_is(kind, "wait_group")) {
		bool counts = token_is(kind, "wait_group");
		if (s->n != counts || p->n != 3 || (counts && s->operand[0].kind != 'i'))
			parse_error(t, s->name, "expected %s", counts ? "a number of groups" : "no operands");
		i->offset = counts ? (s64)s->operand[0].value : 0;
		i->run = counts ? wait_group : token_is(kind, "wait_all") ? wait_all : commit_group;
		return;
	}
	bool ok = (token_is(kind, "ca") || token_is(kind, "cg")) && p->n >= 5 && token_starts_with(p->part[3], "shared") &&
		token_is(p->part[4], "global");
	for (int n = 5; ok && n < p->n; n++)
		ok = token_starts_with(p->part[n], "L2::");
	u64 bytes = s->n > 2 ? s->operand[2].value : 0;
	if (!ok || s->n < 3 || s->n > 4 || s->operand[2].kind != 'i' || (bytes != 16 && (token_is(kind, "cg") || (bytes != 4 && bytes != 8))))
		parse_error(t, s->name, "no asynchronous copy that this machine knows");
	i->bytes = (u8)bytes;
	set_address_operand(t, s, 0, 0);
	set_address_operand(t, s, 1, 1);
	i->target = (u32)(s32)s->operand[1].offset;
	Operand all = {.kind = 'i', .value = bytes, .token = s->name};
	i->operand[2] = operand_offset(t, s->n == 4 ? &s->operand[3] : &all, 4);
	i->reads |= 4;
	i->run = copy_async;
}

// ldmatrix: x1, x2 or x4 matrices of 8×8 numbers of 16 bits, optionally transposed.
static void matrix_load(Parser *t, Statement *s, const Parts *p) {
	Ins *i = s->ins;
	bool transposed = p->n == 8 && token_is(p->part[5], "trans"), ok = p->n == 7 || transposed;
	static const char *head[] = {"ldmatrix", "sync", "aligned", "m8n8"};
	for (int n = 0; ok && n < 4; n++)
		ok = token_is(p->part[n], head[n]);
	ok = ok && p->part[4].n == 2 && p->part[4].at[0] == 'x' && strchr("124", p->part[4].at[1]) &&
		token_starts_with(p->part[p->n - 2], "shared") && token_is(p->part[p->n - 1], "b16") && s->n == 2;
	if (!ok)
		parse_error(t, s->name, "no load of matrices that this machine knows");
	i->count = (u8)(p->part[4].at[1] - '0');
	u32 next = 1;
	set_address_operand(t, s, 1, 0);
	set_vector_operands(t, &s->operand[0], i->count, 4, i, &next);
	i->writes = (u16)((1u << next) - 2);
	i->run = transposed ? load_matrix_transposed : load_matrix;
}

bool choose_memory(Parser *t, Statement *s) {
	Parts p = parts_of(t, s->name);
	if (token_is(p.part[0], "ld") || token_is(p.part[0], "st"))
		load_or_store(t, s, &p);
	else if (token_is(p.part[0], "atom") || token_is(p.part[0], "red"))
		atomic_access(t, s, &p);
	else if (token_starts_with(s->name, "cp.async."))
		async_copy(t, s, &p);
	else if (token_is(p.part[0], "ldmatrix"))
		matrix_load(t, s, &p);
	else if (token_is(p.part[0], "prefetch") || token_is(p.part[0], "prefetchu"))
		s->ins->run = nothing;
	else
		return false;
	return true;
}
