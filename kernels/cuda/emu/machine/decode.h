// Operands as they are written, before they have an offset.
#ifndef GRPO_EMU_DECODE_H
#define GRPO_EMU_DECODE_H
#include "text.h"

enum { MOST_PARTS = 8 };

typedef struct {
	char kind;
	u32 at, size;
	u64 value;
} Part;

// Operand: r register, p predicate, i immediate or symbol, a address, v vector, _ nothing.
typedef struct {
	char kind;
	Word word;
	u32 at, size;  // of a register, or of an address's base (size 0: none)
	u32 second;    // the predicate in %r1|%p1
	u64 value;
	s64 offset;
	int n;
	Part part[MOST_PARTS];
} Operand;

typedef struct {
	Word name;
	Operand operand[MOST_OPERANDS];
	int n;
	Ins *ins;
} Statement;

u32 place_of(Loader *t, const Operand *o, u32 size);
void place_vector(Loader *t, const Operand *o, u32 n, u32 size, Ins *i, u32 *next);
// choose finds the function that executes a statement, and puts its operands in order.
void choose(Loader *t, Statement *s);
// choose_memory does so for instructions with an address; false: the statement is not one.
bool choose_memory(Loader *t, Statement *s);

// The parts of a name between its dots.
typedef struct {
	Word part[12];
	int n;
} Parts;
Parts parts_of(Loader *t, Word name);
#endif
