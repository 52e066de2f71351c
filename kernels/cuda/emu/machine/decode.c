// Decodes one instruction: its operands become offsets in the register file, its name the function that executes it.
#include "decode.h"

#include <stdlib.h>
#include <string.h>

static u32 constant(Loader *t, u64 value, u32 size) {
	Kernel *k = t->kernel;
	if (size < 8 && size)
		value &= (1ull << (size * 8)) - 1;
	for (int n = 0; n < k->n_constants; n++)
		if (k->constants[n].value == value && k->constants[n].size == size)
			return k->constants[n].at;
	if (k->n_constants % 64 == 0)
		k->constants = grow(k->constants, sizeof *k->constants * (size_t)(k->n_constants + 64));
	u32 at = (k->file_bytes + 63) / 64 * 64;
	k->file_bytes = at + (size ? size * LANES : 4);
	k->constants[k->n_constants++] = (Constant){value, size, at};
	return at;
}

u32 special_register(Word w) {
	static const struct { const char *name; u32 at; } all[] = {{"%tid.", TID}, {"%ctaid.", CTAID}, {"%ntid.", NTID}, {"%nctaid.", NCTAID}};
	static const char *masks[] = {"%lanemask_lt", "%lanemask_le", "%lanemask_eq", "%lanemask_ge", "%lanemask_gt"};
	for (int n = 0; n < 4; n++)
		if (begins(w, all[n].name) && w.n == (int)strlen(all[n].name) + 1 && w.at[w.n - 1] >= 'x' && w.at[w.n - 1] <= 'z')
			return all[n].at + 128 * (u32)(w.at[w.n - 1] - 'x');
	for (u32 n = 0; n < 5; n++)
		if (same(w, masks[n]))
			return LANE_MASKS + 128 * n;
	if (same(w, "%laneid"))
		return LANE_ID;
	if (same(w, "%warpid"))
		return WARP_ID;
	return same(w, "%dynamic_smem_size") ? DYNAMIC_SIZE : 0;
}

// find_register searches from the innermost declaration outwards.
static bool find_register(Loader *t, Word w, Operand *o) {
	u32 special = special_register(w);
	if (special) {
		*o = (Operand){.kind = 'r', .word = w, .at = special, .size = 4};
		return true;
	}
	for (int n = t->n_registers; n-- > 0;) {
		Register *r = &t->registers[n];
		if (r->count ? w.n <= r->name.n || memcmp(w.at, r->name.at, (size_t)r->name.n) : !same_word(w, r->name))
			continue;
		u32 index = 0;
		for (int c = r->name.n; r->count && c < w.n; c++)
			index = w.at[c] >= '0' && w.at[c] <= '9' && index < 1 << 20 ? index * 10 + (u32)(w.at[c] - '0') : UINT32_MAX;
		if (r->count && index >= (u32)r->count)
			continue;
		*o = (Operand){.kind = r->size ? 'r' : 'p', .word = w, .at = r->at + index * (r->size ? r->size * LANES : 4), .size = r->size};
		return true;
	}
	return false;
}

// symbol is the address of a variable in its own space.
static bool symbol(Loader *t, Word w, Operand *o) {
	const Place *p;
	o->word = w;
	o->kind = 'i';
	if ((p = find_place(&t->kernel->parameters, w)) || (p = find_place(&t->kernel->locals, w)))
		o->value = p->at;
	else if ((p = find_place(&t->shared, w)))
		o->value = p->at == UINT32_MAX ? dynamic_start(t) : p->at;
	else if ((p = find_place(&t->module->variables, w)))
		o->value = t->module->allocations[p->at]->base;
	else
		return false;
	return true;
}

static Operand simple(Loader *t) {
	Operand o = {0};
	bool minus = skip_if(t, "-");
	Word w = take(t);
	if (!minus && same(w, "_")) {
		o.kind = '_';
		o.word = w;
	} else if (minus || is_number(w)) {
		o = (Operand){.kind = 'i', .word = w, .value = minus ? -number_of(t, w) : number_of(t, w)};
	} else if (!find_register(t, w, &o) && !symbol(t, w, &o)) {
		refuse(t, w, "nothing is declared as \"%.*s\"", w.n, w.at);
	}
	return o;
}

static Operand address(Loader *t) {
	Operand base = simple(t), o = {.kind = 'a', .word = base.word};
	if (base.kind == 'r')
		o.at = base.at, o.size = base.size;
	else if (base.kind == 'i')
		o.offset = (s64)base.value;
	else
		refuse(t, base.word, "no address");
	if (skip_if(t, "+"))
		o.offset += (s64)take_integer(t);
	else if (next_is(t, "-"))
		o.offset += (s64)take_integer(t);
	expect(t, "]");
	return o;
}

static void vector(Loader *t, Operand *o) {
	*o = (Operand){.kind = 'v', .word = t->word};
	do {
		Operand part = simple(t);
		if (o->n == MOST_PARTS || !strchr("ri_", part.kind))
			refuse(t, part.word, "no vector that this machine knows");
		o->part[o->n++] = (Part){part.kind, part.at, part.size, part.value};
	} while (skip_if(t, ","));
	expect(t, "}");
}

static Operand take_operand(Loader *t) {
	Operand o;
	if (skip_if(t, "["))
		return address(t);
	if (skip_if(t, "{")) {
		vector(t, &o);
		return o;
	}
	o = simple(t);
	if (skip_if(t, "|")) {
		Operand second = simple(t);
		if (second.kind != 'p')
			refuse(t, second.word, "expected a predicate after |");
		o.second = second.at;
	}
	return o;
}

// place_of is the offset of a register or constant of a size; size 0 is a predicate.
u32 place_of(Loader *t, const Operand *o, u32 size) {
	if (o->kind == 'i')
		return constant(t, size || !o->value ? o->value : ~0u, size);
	if ((o->kind != 'r' && o->kind != 'p') || o->size != size)
		refuse(t, o->word, "operand \"%.*s\" has another size or kind than the instruction", o->word.n, o->word.at);
	return o->at;
}

void place_vector(Loader *t, const Operand *o, u32 n, u32 size, Ins *i, u32 *next) {
	if (o->kind != 'v' || (u32)o->n != n)
		refuse(t, o->word, "expected a vector of %u", n);
	for (u32 e = 0; e < n; e++) {
		Operand part = {.kind = o->part[e].kind, .word = o->word, .at = o->part[e].at, .size = o->part[e].size, .value = o->part[e].value};
		i->operand[(*next)++] = place_of(t, &part, size);
	}
}

static void guard(Loader *t, Ins *i) {
	if (!skip_if(t, "@"))
		return;
	i->negate = skip_if(t, "!");
	Operand o = simple(t);
	i->guard = place_of(t, &o, 0);
}

static void add_label(Loader *t, Word w) {
	if (t->n_labels == t->labels_room)
		t->labels = grow(t->labels, sizeof *t->labels * (size_t)(t->labels_room = t->labels_room * 2 + 64));
	t->labels[t->n_labels++] = (Label){w, t->kernel->n};
}

static Ins *append(Loader *t, const Ins *i, Word target) {
	Kernel *k = t->kernel;
	if (k->n == k->room)
		k->code = grow(k->code, sizeof *k->code * (k->room = k->room * 2 + 64));
	if (k->n >= t->targets_room)
		t->targets = grow(t->targets, sizeof *t->targets * (t->targets_room = k->room));
	t->targets[k->n] = target;
	k->code[k->n] = *i;
	return &k->code[k->n++];
}

// decode reads a label, or one instruction with its guard up to the semicolon.
void decode(Loader *t) {
	Ins i = {.line = t->line};
	Statement s = {.ins = &i};
	const char *from = t->word.at;
	i.line = t->word.line;
	guard(t, &i);
	s.name = take(t);
	if (skip_if(t, ":")) {
		add_label(t, s.name);
		return;
	}
	Word target = {0};
	if (same(s.name, "bra") || same(s.name, "bra.uni")) {
		target = take(t);
		i.flow = BRANCH;
	} else {
		while (!next_is(t, ";")) {
			if (s.n == MOST_OPERANDS)
				refuse(t, s.name, "too many operands");
			s.operand[s.n++] = take_operand(t);
			if (!skip_if(t, ","))
				break;
		}
		choose(t, &s);
	}
	i.text = from;
	i.line_length = (u16)(t->word.at - from < 120 ? t->word.at - from : 120);
	expect(t, ";");
	append(t, &i, target);
}

// link_branches resolves the targets of branches, and ends the code.
void link_branches(Loader *t) {
	Kernel *k = t->kernel;
	Ins end = {.flow = EXIT, .text = "the end of the kernel", .line_length = 21};
	if (k->n)
		append(t, &end, (Word){0});
	for (u32 n = 0; n < k->n; n++) {
		bool found = k->code[n].flow != BRANCH;
		for (int l = 0; !found && l < t->n_labels; l++)
			if ((found = same_word(t->labels[l].name, t->targets[n])))
				k->code[n].target = t->labels[l].at;
		if (!found)
			refuse(t, t->targets[n], "no label \"%.*s\"", t->targets[n].n, t->targets[n].at);
	}
}
