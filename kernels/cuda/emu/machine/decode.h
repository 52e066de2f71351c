// Operands and names of instructions as they are written in PTX.
#ifndef GRPO_EMU_DECODE_H
#define GRPO_EMU_DECODE_H
#include "text.h"

enum { MAX_PARTS = 8 };

typedef struct {
	char kind;
	u32 at, size;
	u64 value;
} Part;

// Operand: r register, p predicate, i immediate or symbol, a address, v vector, _ nothing.
typedef struct {
	char kind;
	Token token;
	u32 at, size;  // of a register, or of an address's base (size 0: none)
	u32 second;    // the predicate in %r1|%p1
	u64 value;
	s64 offset;
	int n;
	Part part[MAX_PARTS];
} Operand;

typedef struct {
	Token name;
	Operand operand[MAX_OPERANDS];
	int n;
	Ins *ins;
} Statement;

u32 operand_offset(Parser *t, const Operand *o, u32 size);
void set_vector_operands(Parser *t, const Operand *o, u32 n, u32 size, Ins *i, u32 *next);
// choose finds the function that executes a statement, and stores its operands in the order of that function.
void choose(Parser *t, Statement *s);
// choose_memory does the same for instructions with an address. It returns false for others.
bool choose_memory(Parser *t, Statement *s);

// The parts of a name between its dots.
typedef struct {
	Token part[12];
	int n;
} Parts;
Parts parts_of(Parser *t, Token name);
#endif
