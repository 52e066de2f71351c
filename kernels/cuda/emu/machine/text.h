// Tokens of PTX, and the state of its parser.
#ifndef GRPO_EMU_TEXT_H
#define GRPO_EMU_TEXT_H
#include "machine.h"

// Token is a part of the text: a name, a number, or one character of punctuation.
typedef struct {
	const char *at;
	int n;
	u32 line;
} Token;

// Register is a declared name, or a range of them (%r<100>).
typedef struct {
	Token name;
	int count;     // 0: the name alone
	u32 at, size;  // size 0: a predicate
} Register;

typedef struct {
	Token name;
	u32 at;
} Label;

enum { MAX_DECLARATIONS = 512 };

// Parser reads a module's text once. Its first error stops it.
typedef struct {
	const char *p;
	u32 line;
	Token token;            // the next one
	Module *module;
	Kernel *kernel;
	Register registers[MAX_DECLARATIONS];
	int n_registers;
	Symbols shared;         // variables of the kernel and of the module
	u32 shared_bytes, dynamic_align;
	Label *labels;
	int n_labels, labels_capacity;
	Token *targets;         // the label of a branch, by instruction
	u32 targets_capacity;
	char *log;
	size_t log_size;
	jmp_buf stop;
} Parser;

void start_parser(Parser *t, const char *text);
Token next_token(Parser *t);
bool next_is(Parser *t, const char *token);
bool skip_if(Parser *t, const char *token);
void expect(Parser *t, const char *token);
bool token_is(Token w, const char *s);
bool tokens_equal(Token a, Token b);
bool token_starts_with(Token w, const char *s);
char *copy_token(Token w);
u64 parse_integer(Parser *t);
u64 number_of(Parser *t, Token w);
bool is_number(Token w);
__attribute__((noreturn, format(printf, 3, 4))) void parse_error(Parser *t, Token where, const char *form, ...);
void *grow(void *p, size_t n);
void add_symbol(Symbols *p, Token name, u32 at, u32 size);
const Symbol *find_symbol(const Symbols *p, Token name);
u32 type_size(Parser *t, Token type);

// decode.c
void decode(Parser *t);
void link_branches(Parser *t);
u32 special_register(Token name);
u32 dynamic_start(const Parser *t);
enum { SINK = 64, TID = SINK + 8 * 32, CTAID = TID + 3 * 128, NTID = CTAID + 3 * 128, NCTAID = NTID + 3 * 128,
	LANE_ID = NCTAID + 3 * 128, WARP_ID = LANE_ID + 128, LANE_MASKS = WARP_ID + 128, DYNAMIC_SIZE = LANE_MASKS + 5 * 128,
	FILE_FIRST = DYNAMIC_SIZE + 128 };
#endif
