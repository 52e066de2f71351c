// Finds the function that executes an instruction: the table of names, and the few instructions whose operands vary.
#include "decode.h"

#include <stdlib.h>
#include <string.h>

Handler nothing, pack, unpack, move2, move4, move8;

static int by_name(const void *a, const void *b) { return strcmp(((const Opcode *)a)->name, ((const Opcode *)b)->name); }

// find_opcode looks up a name in the tables of the op_*.c files, which are sorted once. Modules are loaded one at a time.
static const Opcode *find_opcode(Token name) {
	static Opcode all[1200];
	static size_t n;
	if (!n) {
		const Opcode *tables[] = {integer_opcodes, bit_opcodes, float_opcodes, compare_opcodes, convert_opcodes, warp_opcodes, matrix_opcodes};
		for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
			for (const Opcode *r = tables[t]; r->name && n < sizeof all / sizeof *all; r++)
				all[n++] = *r;
		qsort(all, n, sizeof *all, by_name);
	}
	char text[100];
	if (name.n >= (int)sizeof text)
		return NULL;
	memcpy(text, name.at, (size_t)name.n);
	text[name.n] = 0;
	return bsearch(&(Opcode){.name = text}, all, n, sizeof *all, by_name);
}

// any_width accepts a register of any declared width, or a constant in 8 bytes.
static u32 any_width(Parser *t, const Operand *o, u8 *width) {
	*width = o->kind == 'i' ? 8 : (u8)o->size;
	return operand_offset(t, o, *width);
}

// set_operands stores the operands of a statement as its opcode describes them: 2, 4, 8 is a size in bytes, p a predicate, v4 a vector of
// four 32-bit registers, w a register of any width, | an optional predicate result after the previous operand; &, / and ^ combine a
// comparison with a predicate by and, or, exclusive or. The first operand is written, except in opcodes that begin with -.
static void set_operands(Parser *t, Statement *s, const Opcode *opcode) {
	Ins *i = s->ins;
	u32 next = 0;
	int n = 0;
	bool writes = opcode->operands[0] != '-';
	i->run = opcode->run;
	for (const char *c = opcode->operands + !writes; *c; c++) {
		u32 before = next;
		if (*c == '|') {
			i->writes |= (u16)(1u << next);
			i->operand[next++] = s->operand[n - 1].second;
			s->operand[n - 1].second = 0;
			continue;
		}
		if (strchr("&/^", *c)) {
			i->variant = (u8)*c;
			continue;
		}
		if (n == s->n)
			parse_error(t, s->name, "too few operands");
		const Operand *o = &s->operand[n++];
		if (*c == 'v')
			set_vector_operands(t, o, (u32)(*++c - '0'), 4, i, &next);
		else if (*c == 'w')
			i->operand[next++] = any_width(t, o, c == opcode->operands ? &i->width : &i->bytes);
		else
			i->operand[next++] = operand_offset(t, o, *c == 'p' ? 0 : (u32)(*c - '0'));
		*(before || !writes ? &i->reads : &i->writes) |= (u16)((1u << next) - (1u << before));
	}
	if (n != s->n)
		parse_error(t, s->name, "too many operands");
	for (n = 0; n < s->n; n++)
		if (s->operand[n].second)
			parse_error(t, s->name, "no second result here");
}

Parts parts_of(Parser *t, Token name) {
	Parts p = {0};
	const char *from = name.at, *end = name.at + name.n;
	for (const char *c = from; c <= end; c++)
		if (c == end || *c == '.') {
			if (p.n == (int)(sizeof p.part / sizeof *p.part))
				parse_error(t, name, "no instruction that this machine knows");
			p.part[p.n++] = (Token){from, (int)(c - from), name.line};
			from = c + 1;
		}
	return p;
}

static bool choose_move(Parser *t, Statement *s) {
	if (s->n != 2 || !(token_is(s->name, "mov.b32") || token_is(s->name, "mov.b64")))
		return false;
	u32 size = s->name.at[4] == 'b' && s->name.at[5] == '3' ? 4 : 8, next = 1;
	bool unpacks = s->operand[0].kind == 'v';
	Operand *v = &s->operand[unpacks ? 0 : 1], *whole = &s->operand[unpacks ? 1 : 0];
	if (v->kind != 'v')
		return false;
	Ins *i = s->ins;
	i->count = (u8)v->n;
	i->width = (u8)size;
	i->bytes = (u8)(size / (u32)(v->n ? v->n : 1));
	i->operand[0] = operand_offset(t, whole, size);
	for (int n = 0; n < v->n; n++) // parts named _ are discarded
		if (v->part[n].kind == '_' && unpacks)
			v->part[n] = (Part){'r', SINK, i->bytes, 0};
	set_vector_operands(t, v, i->count, i->bytes, i, &next);
	i->run = unpacks ? unpack : pack;
	i->reads = unpacks ? 1 : (u16)((1u << next) - 2);
	i->writes = unpacks ? (u16)((1u << next) - 2) : 1;
	return true;
}

// choose_barrier: bar.sync a; bar.sync a, threads; bar.arrive a, threads.
static bool choose_barrier(Parser *t, Statement *s) {
	static const char *names[] = {"bar.sync", "barrier.sync", "barrier.sync.aligned", "bar.arrive", "barrier.arrive",
		"barrier.arrive.aligned"};
	for (int n = 0; n < 6; n++) {
		if (!token_is(s->name, names[n]))
			continue;
		Ins *i = s->ins;
		bool arrives = n > 2;
		if (s->n < 1 + arrives || s->n > 2)
			parse_error(t, s->name, "expected %s", arrives ? "a barrier and a number of threads" : "a barrier, and perhaps a number of threads");
		i->flow = BARRIER;
		i->variant = (u8)((s->n == 2) | arrives << 1);
		i->reads = (u16)((1u << s->n) - 1);
		for (int o = 0; o < s->n; o++)
			i->operand[o] = operand_offset(t, &s->operand[o], 4);
		return true;
	}
	return false;
}

void choose(Parser *t, Statement *s) {
	static const char *fences[] = {"membar.cta", "membar.gl", "membar.sys", "fence.acq_rel.cta", "fence.acq_rel.gpu",
		"fence.acq_rel.sys", "fence.sc.cta", "fence.sc.gpu", "fence.sc.sys"};
	if (token_is(s->name, "ret") || token_is(s->name, "exit") || token_is(s->name, "trap")) {
		s->ins->flow = EXIT;
		s->ins->variant = token_is(s->name, "trap");
	} else if (!choose_move(t, s) && !choose_barrier(t, s) && !choose_memory(t, s)) {
		const Opcode *opcode = find_opcode(s->name);
		for (size_t n = 0; !opcode && n < sizeof fences / sizeof *fences; n++)
			if (token_is(s->name, fences[n]))
				opcode = &(Opcode){fences[n], nothing, ""};
		if (!opcode)
			parse_error(t, s->name, "no instruction that this machine knows: \"%.*s\"", s->name.n, s->name.at);
		set_operands(t, s, opcode);
		return;
	}
}

void nothing(Warp *w, const Ins *i, u32 mask) { (void)w, (void)i, (void)mask; }

// pack puts the first part into the lowest bits.
void pack(Warp *w, const Ins *i, u32 mask) {
	for (u32 l = 0; l < LANES; l++) {
		u64 v = 0;
		for (u32 n = i->count; n-- > 0;) {
			u64 part = 0;
			copy_number(&part, w->file + i->operand[1 + n] + l * i->bytes, i->bytes);
			v = v << (i->bytes * 8) | part;
		}
		if (mask >> l & 1)
			copy_number(w->file + i->operand[0] + l * i->width, &v, i->width);
	}
}

void unpack(Warp *w, const Ins *i, u32 mask) {
	for (u32 l = 0; l < LANES; l++) {
		u64 v = 0;
		copy_number(&v, w->file + i->operand[0] + l * i->width, i->width);
		for (u32 n = 0; n < i->count && mask >> l & 1; n++)
			copy_number(w->file + i->operand[1 + n] + l * i->bytes, (u8 *)&v + n * i->bytes, i->bytes);
	}
}
