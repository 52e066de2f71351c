// Tokens of PTX, and the state of a loader.
#ifndef GRPO_EMU_TEXT_H
#define GRPO_EMU_TEXT_H
#include "machine.h"

// Word is a part of the text: a name, a number, or one character of punctuation.
typedef struct {
	const char *at;
	int n;
	u32 line;
} Word;

// Register is a declared name, or a range of them (%r<100>).
typedef struct {
	Word name;
	int count;     // 0: the name alone
	u32 at, size;  // size 0: a predicate
} Register;

typedef struct {
	Word name;
	u32 at;
} Label;

enum { MOST_DECLARATIONS = 512 };

// Loader reads a module's text once. Its first error stops it.
typedef struct {
	const char *p;
	u32 line;
	Word word;              // the next one, not yet read
	Module *module;
	Kernel *kernel;
	Register registers[MOST_DECLARATIONS];
	int n_registers;
	Places shared;          // variables of the kernel and of the module
	u32 shared_bytes, dynamic_align;
	Label *labels;
	int n_labels, labels_room;
	Word *targets;          // the label of a branch, by instruction
	u32 targets_room;
	char *log;
	size_t log_room;
	jmp_buf stop;
} Loader;

void start(Loader *t, const char *text);
Word take(Loader *t);
bool next_is(Loader *t, const char *word);
bool skip_if(Loader *t, const char *word);
void expect(Loader *t, const char *word);
bool same(Word w, const char *s);
bool same_word(Word a, Word b);
bool begins(Word w, const char *s);
char *copy_of(Word w);
u64 take_integer(Loader *t);
u64 number_of(Loader *t, Word w);
bool is_number(Word w);
__attribute__((noreturn, format(printf, 3, 4))) void refuse(Loader *t, Word where, const char *form, ...);
void *grow(void *p, size_t n);
void add_place(Places *p, Word name, u32 at, u32 size);
const Place *find_place(const Places *p, Word name);
u32 type_size(Loader *t, Word type);

// decode.c
void decode(Loader *t);
void link_branches(Loader *t);
u32 special_register(Word name);
u32 dynamic_start(const Loader *t);
enum { SINK = 64, TID = SINK + 8 * 32, CTAID = TID + 3 * 128, NTID = CTAID + 3 * 128, NCTAID = NTID + 3 * 128,
	LANE_ID = NCTAID + 3 * 128, WARP_ID = LANE_ID + 128, LANE_MASKS = WARP_ID + 128, DYNAMIC_SIZE = LANE_MASKS + 5 * 128,
	FILE_FIRST = DYNAMIC_SIZE + 128 };
#endif
