// Instructions with an address: their names have many optional parts, which are read one by one. Cache hints are ignored.
#include "decode.h"

#include <string.h>

Handler load, load_parameter, store, update_add, update_min_u, update_min_s, update_max_u, update_max_s, update_and, update_or,
	update_xor, update_exchange, update_cas, copy_async, commit_group, wait_group, wait_all, load_matrix, load_matrix_transposed, nothing;

static bool hint(Word w) {
	static const char *hints[] = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak", "cta", "gpu", "sys"};
	for (size_t n = 0; n < sizeof hints / sizeof *hints; n++)
		if (same(w, hints[n]))
			return true;
	return begins(w, "L1::") || begins(w, "L2::");
}

static bool strong(Word w) {
	static const char *names[] = {"volatile", "relaxed", "acquire", "release", "acq_rel"};
	for (size_t n = 0; n < sizeof names / sizeof *names; n++)
		if (same(w, names[n]))
			return true;
	return false;
}

static bool space(Word w, u8 *into) {
	static const struct { const char *name; u8 space; } all[] = {{"global", GLOBAL}, {"const", GLOBAL}, {"shared", SHARED},
		{"shared::cta", SHARED}, {"local", LOCAL}, {"param", PARAM}};
	for (size_t n = 0; n < sizeof all / sizeof *all; n++)
		if (same(w, all[n].name)) {
			*into = all[n].space;
			return true;
		}
	return false;
}

// type reads u32 and the like; kind is b for bit types, or f, s, u.
static bool type(Word w, Ins *i, char *kind) {
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

static void set_address(Loader *t, Statement *s, int n, int slot) {
	const Operand *o = &s->operand[n];
	if (n >= s->n || o->kind != 'a')
		refuse(t, s->name, "expected an address as operand %d", n + 1);
	Ins *i = s->ins;
	i->operand[slot] = o->at;
	i->reads |= (u16)((o->size != 0) << slot);
	if (slot == 0) {
		i->has = (u8)o->size;
		i->offset = o->offset;
	} else if (o->size != 8 || o->offset < INT32_MIN || o->offset > INT32_MAX) {
		refuse(t, s->name, "expected an address in a 64-bit register");
	}
}

// values puts a register or a vector of registers after the address, in slots from 1 on. Registers may be wider than the memory.
static void values(Loader *t, Statement *s, int n, u16 *whose) {
	Ins *i = s->ins;
	Operand *o = &s->operand[n];
	u32 next = 1;
	if (o->kind == 'v') {
		if (o->n != i->count)
			refuse(t, s->name, "expected a vector of %d", i->count);
		for (int e = 0; e < o->n; e++)
			if (o->part[e].kind == 'r' && o->part[e].size > i->width)
				i->width = (u8)o->part[e].size;
		if (!i->width)
			i->width = i->bytes;
		place_vector(t, o, i->count, i->width, i, &next);
	} else {
		if (i->count != 1)
			refuse(t, s->name, "expected a vector of %d", i->count);
		i->width = o->kind == 'r' ? (u8)o->size : i->bytes;
		i->operand[1] = place_of(t, o, i->width);
	}
	*whose |= (u16)((2u << i->count) - 2);
	if (i->width < i->bytes)
		refuse(t, s->name, "a register of %d bytes for %d bytes of memory", i->width, i->bytes);
}

// ld.global.nc.L1::no_allocate.v4.f32 and all other loads and stores.
static void load_or_store(Loader *t, Statement *s, const Parts *p) {
	Ins *i = s->ins;
	bool stores = same(p->part[0], "st"), typed = false;
	char kind = 0;
	i->space = GENERIC;
	i->count = 1;
	for (int n = 1; n < p->n; n++) {
		Word w = p->part[n];
		if (same(w, "v2") || same(w, "v4"))
			i->count = (u8)(w.at[1] - '0');
		else if (strong(w))
			i->strong = true;
		else if (n + 1 == p->n && type(w, i, &kind))
			typed = true;
		else if (!space(w, &i->space) && !hint(w))
			refuse(t, s->name, "no memory access that this machine knows: \".%.*s\"", w.n, w.at);
	}
	if (!typed || s->n != 2 || (stores && i->space == PARAM))
		refuse(t, s->name, "no memory access that this machine knows");
	set_address(t, s, stores ? 0 : 1, 0);
	values(t, s, stores ? 1 : 0, stores ? &i->reads : &i->writes);
	i->run = stores ? store : i->space == PARAM ? load_parameter : load;
	if (i->space == PARAM && (i->has || i->offset < 0 || i->offset + i->count * i->bytes > t->kernel->parameter_bytes))
		refuse(t, s->name, "no parameter is there");
}

static Handler *atomic(Word op, char kind) {
	static const struct { const char *name; Handler *is_unsigned, *is_signed; } all[] = {{"add", update_add, update_add},
		{"min", update_min_u, update_min_s}, {"max", update_max_u, update_max_s}, {"and", update_and, update_and},
		{"or", update_or, update_or}, {"xor", update_xor, update_xor}, {"exch", update_exchange, update_exchange},
		{"cas", update_cas, update_cas}};
	for (size_t n = 0; n < sizeof all / sizeof *all; n++)
		if (same(op, all[n].name))
			return kind == 's' ? all[n].is_signed : all[n].is_unsigned;
	return NULL;
}

// atom returns the old value, red does not. Sums of floats would depend on the order of blocks, so they are refused.
static void atomic_access(Loader *t, Statement *s, const Parts *p) {
	Ins *i = s->ins;
	bool gives = same(p->part[0], "atom");
	int at = gives ? 1 : 0, inputs;
	char kind = 0;
	i->space = GENERIC;
	for (int n = 1; n < p->n; n++) {
		Word w = p->part[n];
		if (n + 1 == p->n ? type(w, i, &kind) : strong(w) || space(w, &i->space) || hint(w))
			continue;
		Handler *h = atomic(w, p->part[p->n - 1].at[0]);
		if (!h || i->run)
			refuse(t, s->name, "no atomic operation that this machine knows");
		i->run = h;
	}
	if (kind == 'f' && i->run == update_add)
		refuse(t, s->name, "an atomic sum of floats depends on the order of blocks; sum in a fixed order instead");
	inputs = i->run == update_cas ? 2 : 1;
	if (!i->run || i->bytes < 4 || s->n != at + 1 + inputs || i->space == PARAM || i->space == LOCAL)
		refuse(t, s->name, "no atomic operation that this machine knows");
	i->strong = true;
	i->width = i->bytes;
	set_address(t, s, at, 0);
	i->operand[1] = gives && s->operand[0].kind != '_' ? place_of(t, &s->operand[0], i->bytes) : SINK;
	i->writes = 2;
	i->reads |= (u16)((4u << inputs) - 4);
	for (int n = 0; n < inputs; n++)
		i->operand[2 + n] = place_of(t, &s->operand[at + 1 + n], i->bytes);
}

// cp.async.ca.shared.global [to], [from], 16, bytes: with fewer bytes than 16, the rest is zero.
static void async(Loader *t, Statement *s, const Parts *p) {
	Ins *i = s->ins;
	Word kind = p->n > 2 ? p->part[2] : (Word){"", 0, 0};
	if (same(kind, "commit_group") || same(kind, "wait_all") || same(kind, "wait_group")) {
		bool counts = same(kind, "wait_group");
		if (s->n != counts || p->n != 3 || (counts && s->operand[0].kind != 'i'))
			refuse(t, s->name, "expected %s", counts ? "a number of groups" : "no operands");
		i->offset = counts ? (s64)s->operand[0].value : 0;
		i->run = counts ? wait_group : same(kind, "wait_all") ? wait_all : commit_group;
		return;
	}
	bool ok = (same(kind, "ca") || same(kind, "cg")) && p->n >= 5 && begins(p->part[3], "shared") && same(p->part[4], "global");
	for (int n = 5; ok && n < p->n; n++)
		ok = begins(p->part[n], "L2::");
	u64 bytes = s->n > 2 ? s->operand[2].value : 0;
	if (!ok || s->n < 3 || s->n > 4 || s->operand[2].kind != 'i' || (bytes != 16 && (same(kind, "cg") || (bytes != 4 && bytes != 8))))
		refuse(t, s->name, "no asynchronous copy that this machine knows");
	i->bytes = (u8)bytes;
	set_address(t, s, 0, 0);
	set_address(t, s, 1, 1);
	i->target = (u32)(s32)s->operand[1].offset;
	Operand all = {.kind = 'i', .value = bytes, .word = s->name};
	i->operand[2] = place_of(t, s->n == 4 ? &s->operand[3] : &all, 4);
	i->reads |= 4;
	i->run = copy_async;
}

// ldmatrix: x1, x2 or x4 matrices of 8×8 numbers of 16 bits, optionally transposed.
static void matrix(Loader *t, Statement *s, const Parts *p) {
	Ins *i = s->ins;
	bool transposed = p->n == 8 && same(p->part[5], "trans"), ok = p->n == 7 || transposed;
	static const char *head[] = {"ldmatrix", "sync", "aligned", "m8n8"};
	for (int n = 0; ok && n < 4; n++)
		ok = same(p->part[n], head[n]);
	ok = ok && p->part[4].n == 2 && p->part[4].at[0] == 'x' && strchr("124", p->part[4].at[1]) && begins(p->part[p->n - 2], "shared") &&
		same(p->part[p->n - 1], "b16") && s->n == 2;
	if (!ok)
		refuse(t, s->name, "no load of matrices that this machine knows");
	i->count = (u8)(p->part[4].at[1] - '0');
	u32 next = 1;
	set_address(t, s, 1, 0);
	place_vector(t, &s->operand[0], i->count, 4, i, &next);
	i->writes = (u16)((1u << next) - 2);
	i->run = transposed ? load_matrix_transposed : load_matrix;
}

bool choose_memory(Loader *t, Statement *s) {
	Parts p = parts_of(t, s->name);
	if (same(p.part[0], "ld") || same(p.part[0], "st"))
		load_or_store(t, s, &p);
	else if (same(p.part[0], "atom") || same(p.part[0], "red"))
		atomic_access(t, s, &p);
	else if (begins(s->name, "cp.async."))
		async(t, s, &p);
	else if (same(p.part[0], "ldmatrix"))
		matrix(t, s, &p);
	else if (same(p.part[0], "prefetch") || same(p.part[0], "prefetchu"))
		s->ins->run = nothing;
	else
		return false;
	return true;
}
