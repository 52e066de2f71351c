// Decodes one instruction: its operands become offsets in the register file, its name the function that executes it.
#include "decode.h"

#include <stdlib.h>
#include <string.h>

static u32 add_constant(Parser *t, u64 value, u32 size) {
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

u32 special_register(Token w) {
	static const struct { const char *name; u32 at; } all[] = {{"%tid.", TID}, {"%ctaid.", CTAID}, {"%ntid.", NTID}, {"%nctaid.", NCTAID}};
	static const char *masks[] = {"%lanemask_lt", "%lanemask_le", "%lanemask_eq", "%lanemask_ge", "%lanemask_gt"};
	for (int n = 0; n < 4; n++)
		if (token_starts_with(w, all[n].name) && w.n == (int)strlen(all[n].name) + 1 && w.at[w.n - 1] >= 'x' && w.at[w.n - 1] <= 'z')
			return all[n].at + 128 * (u32)(w.at[w.n - 1] - 'x');
	for (u32 n = 0; n < 5; n++)
		if (token_is(w, masks[n]))
			return LANE_MASKS + 128 * n;
	if (token_is(w, "%laneid"))
		return LANE_ID;
	if (token_is(w, "%warpid"))
		return WARP_ID;
	return token_is(w, "%dynamic_smem_size") ? DYNAMIC_SIZE : 0;
}

// find_register searches from the innermost declaration outwards, since those in braces hide others.
static bool find_register(Parser *t, Token w, Operand *o) {
	u32 special = special_register(w);
	if (special) {
		*o = (Operand){.kind = 'r', .token = w, .at = special, .size = 4};
		return true;
	}
	for (int n = t->n_registers; n-- > 0;) {
		Register *r = &t->registers[n];
		if (r->count ? w.n <= r->name.n || memcmp(w.at, r->name.at, (size_t)r->name.n) : !tokens_equal(w, r->name))
			continue;
		u32 index = 0;
		for (int c = r->name.n; r->count && c < w.n; c++)
			index = w.at[c] >= '0' && w.at[c] <= '9' && index < 1 << 20 ? index * 10 + (u32)(w.at[c] - '0') : UINT32_MAX;
		if (r->count && index >= (u32)r->count)
			continue;
		*o = (Operand){.kind = r->size ? 'r' : 'p', .token = w, .at = r->at + index * (r->size ? r->size * LANES : 4), .size = r->size};
		return true;
	}
	return false;
}

// find_variable sets an operand to the address of a variable in its own space.
static bool find_variable(Parser *t, Token w, Operand *o) {
	const Symbol *p;
	o->token = w;
	o->kind = 'i';
	if ((p = find_symbol(&t->kernel->parameters, w)) || (p = find_symbol(&t->kernel->locals, w)))
		o->value = p->at;
	else if ((p = find_symbol(&t->shared, w)))
		o->value = p->at == UINT32_MAX ? dynamic_start(t) : p->at;
	else if ((p = find_symbol(&t->module->variables, w)))
		o->value = t->module->allocations[p->at]->base;
	else
		return false;
	return true;
}

static Operand parse_simple_operand(Parser *t) {
	Operand o = {0};
	bool minus = skip_if(t, "-");
	Token w = next_token(t);
	if (!minus && token_is(w, "_")) {
		o.kind = '_';
		o.token = w;
	} else if (minus || is_number(w)) {
		o = (Operand){.kind = 'i', .token = w, .value = minus ? -number_of(t, w) : number_of(t, w)};
	} else if (!find_register(t, w, &o) && !find_variable(t, w, &o)) {
		parse_error(t, w, "nothing is declared as \"%.*s\"", w.n, w.at);
	}
	return o;
}

static Operand parse_address(Parser *t) {
	Operand base = parse_simple_operand(t), o = {.kind = 'a', .token = base.token};
	if (base.kind == 'r')
		o.at = base.at, o.size = base.size;
	else if (base.kind == 'i')
		o.offset = (s64)base.value;
	else
		parse_error(t, base.token, "no address");
	if (skip_if(t, "+"))
		o.offset += (s64)parse_integer(t);
	else if (next_is(t, "-"))
		o.offset += (s64)parse_integer(t);
	expect(t, "]");
	return o;
}

static void parse_vector(Parser *t, Operand *o) {
	*o = (Operand){.kind = 'v', .token = t->token};
	do {
		Operand part = parse_simple_operand(t);
		if (o->n == MAX_PARTS || !strchr("ri_", part.kind))
			parse_error(t, part.token, "no vector that this machine knows");
		o->part[o->n++] = (Part){part.kind, part.at, part.size, part.value};
	} while (skip_if(t, ","));
	expect(t, "}");
}

static Operand parse_operand(Parser *t) {
	Operand o;
	if (skip_if(t, "["))
		return parse_address(t);
	if (skip_if(t, "{")) {
		parse_vector(t, &o);
		return o;
	}
	o = parse_simple_operand(t);
	if (skip_if(t, "|")) {
		Operand second = parse_simple_operand(t);
		if (second.kind != 'p')
			parse_error(t, second.token, "expected a predicate after |");
		o.second = second.at;
	}
	return o;
}

// operand_offset is the register file's offset of an operand that must have a size in bytes; 0 is a predicate.
u32 operand_offset(Parser *t, const Operand *o, u32 size) {
	if (o->kind == 'i')
		return add_constant(t, size || !o->value ? o->value : ~0u, size);
	if ((o->kind != 'r' && o->kind != 'p') || o->size != size)
		parse_error(t, o->token, "operand \"%.*s\" has another size or kind than the instruction", o->token.n, o->token.at);
	return o->at;
}

void set_vector_operands(Parser *t, const Operand *o, u32 n, u32 size, Ins *i, u32 *next) {
	if (o->kind != 'v' || (u32)o->n != n)
		parse_error(t, o->token, "expected a vector of %u", n);
	for (u32 e = 0; e < n; e++) {
		Operand part = {.kind = o->part[e].kind, .token = o->token, .at = o->part[e].at, .size = o->part[e].size, .value = o->part[e].value};
		i->operand[(*next)++] = operand_offset(t, &part, size);
	}
}

static void parse_guard(Parser *t, Ins *i) {
	if (!skip_if(t, "@"))
		return;
	i->negate = skip_if(t, "!");
	Operand o = parse_simple_operand(t);
	i->guard = operand_offset(t, &o, 0);
}

static void add_label(Parser *t, Token w) {
	if (t->n_labels == t->labels_capacity)
		t->labels = grow(t->labels, sizeof *t->labels * (size_t)(t->labels_capacity = t->labels_capacity * 2 + 64));
	t->labels[t->n_labels++] = (Label){w, t->kernel->n};
}

static Ins *append(Parser *t, const Ins *i, Token target) {
	Kernel *k = t->kernel;
	if (k->n == k->capacity)
		k->code = grow(k->code, sizeof *k->code * (k->capacity = k->capacity * 2 + 64));
	if (k->n >= t->targets_capacity)
		t->targets = grow(t->targets, sizeof *t->targets * (t->targets_capacity = k->capacity));
	t->targets[k->n] = target;
	k->code[k->n] = *i;
	return &k->code[k->n++];
}

// decode reads a label, or one instruction with its guard up to the semicolon.
void decode(Parser *t) {
	Ins i = {.line = t->line};
	Statement s = {.ins = &i};
	const char *from = t->token.at;
	i.line = t->token.line;
	parse_guard(t, &i);
	s.name = next_token(t);
	if (skip_if(t, ":")) {
		add_label(t, s.name);
		return;
	}
	Token target = {0};
	if (token_is(s.name, "bra") || token_is(s.name, "bra.uni")) {
		target = next_token(t);
		i.flow = BRANCH;
	} else {
		while (!next_is(t, ";")) {
			if (s.n == MAX_OPERANDS)
				parse_error(t, s.name, "too many operands");
			s.operand[s.n++] = parse_operand(t);
			if (!skip_if(t, ","))
				break;
		}
		choose(t, &s);
	}
	i.text = from;
	i.line_length = (u16)(t->token.at - from < 120 ? t->token.at - from : 120);
	expect(t, ";");
	append(t, &i, target);
}

// link_branches resolves the targets of branches, and appends an exit to the code.
void link_branches(Parser *t) {
	Kernel *k = t->kernel;
	Ins end = {.flow = EXIT, .text = "the end of the kernel", .line_length = 21};
	if (k->n)
		append(t, &end, (Token){0});
	for (u32 n = 0; n < k->n; n++) {
		bool found = k->code[n].flow != BRANCH;
		for (int l = 0; !found && l < t->n_labels; l++)
			if ((found = tokens_equal(t->labels[l].name, t->targets[n])))
				k->code[n].target = t->labels[l].at;
		if (!found)
			parse_error(t, t->targets[n], "no label \"%.*s\"", t->targets[n].n, t->targets[n].at);
	}
}
