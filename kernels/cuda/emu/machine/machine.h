// The PTX machine: kernels as the driver would get them, executed on the CPU and watched while they run.
//
//   text.c      the words of PTX text
//   module.c    directives: kernels, their registers, parameters and memory; variables of a module
//   decode.c    one instruction: its operands find their places, its name finds the function that executes it
//   registers.c places that registers share
//   op_*.c      those functions, and the table of their names; op_memory.c and op_warp.c reach beyond registers
//   warp.c      32 lanes and their program counters;  run.c  blocks and barriers, blocks over threads of the host
//   global.c    global memory;  records.c  who touched it;  shared.c  the same for a block's own;  finding.c  what is told
#ifndef GRPO_EMU_MACHINE_H
#define GRPO_EMU_MACHINE_H
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

enum { LANES = 32, MOST_WARPS = 32, MOST_OPERANDS = 16, MOST_BARRIERS = 16 };

// Generic addresses: a number of 4 GB. 1 is the window of shared memory, 2 of local memory, more is an allocation.
enum { SHARED_WINDOW = 1, LOCAL_WINDOW = 2, FIRST_SLOT = 16, SLOTS = 1 << 16 };

typedef struct Warp Warp;
typedef struct Ins Ins;
typedef void Handler(Warp *w, const Ins *i, u32 mask);

// How an instruction changes the program counter.
typedef enum { STRAIGHT, BRANCH, EXIT, BARRIER } Flow;

// Memory spaces of an instruction.
typedef enum { GLOBAL, SHARED, LOCAL, PARAM, GENERIC } Space;

// Ins is one decoded instruction. Registers, constants and special registers are arrays of 32 lanes in one file per warp; an operand is
// its byte offset there.
struct Ins {
	Handler *run;
	u32 operand[MOST_OPERANDS];
	u16 reads, writes; // a bit for each operand that is a register or a constant
	s64 offset;       // of an address
	u32 guard;        // the predicate's offset; 0: none
	u32 target;       // of a branch
	u16 line_length;  // of the text
	u8 flow, space;
	bool negate;      // the guard is negated
	bool is_signed;   // a load narrower than its register is sign-extended
	bool strong;      // volatile, relaxed or atomic: ordered without a barrier
	u8 count;         // of registers in a vector
	u8 bytes;         // of one element in memory
	u8 width;         // of a register, in bytes
	u8 has;           // which optional operands are present
	u32 line;
	const char *text;
};

typedef struct {
	char *name;
	u32 at, size;
} Place;

typedef struct {
	Place *all;
	int n, room;
} Places;

// Constant is an immediate, stored like a register whose lanes are equal.
typedef struct {
	u64 value;
	u32 size, at;
} Constant;

// Range is a group of registers declared together; size in bytes, 0: predicates.
typedef struct {
	u32 at, size, count;
} Range;

typedef struct Kernel {
	char *name;
	struct Module *module;
	Ins *code;
	u32 n, room;
	Places parameters, locals;
	u32 parameter_bytes, local_bytes, shared_bytes, file_bytes;
	Constant *constants;
	Range *ranges;
	int n_constants, n_ranges;
	bool placed;          // registers share offsets
	u32 most_threads;     // .maxntid; 0: any
	u32 most_dynamic;     // shared memory beyond the static: as the attribute allows
	int most_registers;   // declared 32-bit registers, capped at 255: for the attribute only
	struct Kernel *next;
} Kernel;

typedef struct Module {
	char *text;
	Kernel *kernels;
	Places variables;     // at: the index in allocations
	struct Allocation **allocations;
	int version, target;
} Module;

// Access records the last operation that wrote and the last ones that read 4 or 16 bytes of global memory.
typedef struct {
	_Atomic u64 wrote, read;
} Access;

typedef struct Allocation {
	u64 base, size;
	u8 *bytes, *valid;    // valid: one per byte
	Access *lines, *words; // one per 16 bytes, and one per four bytes of those that were touched in parts
	bool freed;
	u32 number;
	const char *what;     // "allocation", or the variable's name
} Allocation;

// Operation is a launch or a copy: its stream, and its number in that stream.
typedef struct {
	u32 stream, sequence;
} Operation;

// Launch is a kernel with its arguments and shape, and the host threads that share its blocks.
typedef struct Launch {
	Kernel *kernel;
	u32 grid[3], block[3], threads, warps, dynamic, shared_bytes;
	const u8 *parameters;
	u32 operation;
	_Atomic u64 next;      // the next block to run
	_Atomic u64 failed;    // lowest block with a finding
	_Atomic u64 executed;
	struct Finding *finding;
	u64 blocks;
} Launch;

typedef struct {
	u32 arrived, expected; // threads
	u32 members;           // warps that take part
} Barrier;

// Granule records accesses to 4 or 16 bytes of shared memory. Times are of the block's clock, which every barrier advances.
typedef struct {
	u32 written, read;     // times
	u32 readers;           // warps
	u16 writer;            // thread
	u8 bytes;              // which were written (low half) and read (high half)
	u8 lane;               // of the reader in its warp, or MANY
} Granule;

// Line is 16 bytes of shared memory: one record for all, or one for each word in a block that touched parts of it. If several lanes
// touched it together, the record is of the first; each: the bytes of a lane.
typedef struct {
	Granule whole;
	u32 fine_since;        // the start of the block that touched parts
	u8 written_each, read_each;
} Line;

// Copy is a cp.async in flight: bytes of a lane that have not arrived.
typedef struct {
	u32 at, group;
	u8 lane, size;
	u8 bytes[16];
} Copy;

struct Warp {
	struct Block *block;
	u8 *file;
	u32 id, alive;         // lanes
	bool split;            // lanes have different program counters
	u32 pc, pcs[LANES];
	int waits;             // for this barrier; -1: running
	u32 groups[LANES];     // committed groups of cp.async
	Copy *copies;
	int n_copies, room;
	u8 *local, *local_valid;
};

// Room is memory that a block reuses between launches.
typedef struct {
	u8 *bytes;
	size_t size;
} Room;
enum { SHARED_BYTES, SHARED_VALID, LINES, WORDS, FILES, LOCALS, ROOMS };

typedef struct Block {
	Launch *launch;
	u64 number;
	u32 at[3];
	u8 *shared, *shared_valid;
	Line *lines;
	Granule *words;        // of lines that were touched in parts
	u32 clock, start;      // start: the clock when the block began
	u32 seen[MOST_WARPS][MOST_WARPS]; // up to which time a warp knows what another did
	Barrier barriers[MOST_BARRIERS];
	Warp warps[MOST_WARPS];
	u64 executed;
	jmp_buf stop;
	Allocation *last;      // of the last access: the next is likely the same
	Room rooms[ROOMS];
	struct Block *next;    // in the list of idle blocks
} Block;

typedef enum {
	OUT_OF_BOUNDS, USE_AFTER_FREE, MISALIGNED, UNINITIALISED, SHARED_RACE, BLOCK_RACE, STREAM_RACE, DIVERGENT_BARRIER, LANE_MASK,
	MISSING_WAIT, BAD_LAUNCH, ENDLESS, LEAK, HOST_RACE, BAD_INSTRUCTION, KINDS
} Kind;

typedef struct Finding {
	Kind kind;
	u64 block;
	char text[700];
} Finding;

// finding.c
__attribute__((noreturn, format(printf, 5, 6))) void find(Warp *w, const Ins *i, int lane, Kind kind, const char *form, ...);
void tell(Kind kind, const char *text);
int findings(void);
const char *kind_name(Kind kind);

// global.c
extern Allocation *slots[SLOTS];
typedef enum { READ, WRITE, UPDATE } How;
Allocation *allocate(u64 size, const char *what);
void release(Allocation *a);
Allocation *find_allocation(u64 address);
u8 *global_at(Warp *w, const Ins *i, int lane, u64 address, u32 n, How how);
u8 *global_run(Warp *w, const Ins *i, u32 lane, u32 lanes, u64 address, u32 n, How how);
bool touch_range(Allocation *a, u64 offset, u64 n, How how, u32 operation, char *why, size_t room);
void say_where(u64 address, u32 n, char *into, size_t room, Kind *kind);
extern u32 settled_operation, lone_since;

// stream.c of the driver: which operations can run at the same time
bool operation_is_ordered(u32 earlier, u32 later);
void describe_operations(u32 earlier, u32 later, char *into, size_t room);

// shared.c
u8 *shared_at(Warp *w, const Ins *i, int lane, u32 at, u32 n, How how);
u8 *shared_run(Warp *w, const Ins *i, u32 lane, u32 lanes, u32 at, u32 n, How how);
void shared_will_arrive(Warp *w, const Ins *i, int lane, u32 at, u32 n);
u8 *local_at(Warp *w, const Ins *i, int lane, u32 at, u32 n, How how);

// module.c, decode.c, text.c, registers.c
Module *load_module(const char *text, int newest_version, int capability, char *log, size_t room, int *status);
void unload_module(Module *m);
static inline u32 room_of(u32 size) { return size ? size * LANES : 4; } // in a warp's register file
void place_registers(Kernel *k);

// warp.c
void run_warp(Warp *w);
void begin_warp(Block *b, Warp *w);
void set_constants(Warp *w, const Kernel *k);

// run.c
void run_launch(Launch *l);
u32 host_threads(void);

// A row of the table of instructions: a name, its function, and the sizes of its operands in bytes; p is a predicate.
typedef struct {
	const char *name;
	Handler *run;
	const char *operands;
} Row;
extern const Row integer_rows[], bit_rows[], float_rows[], compare_rows[], convert_rows[], warp_rows[], matrix_rows[];

// All lanes compute d[l]; lanes of the mask store it.
#define LANE_LOOP(statement)                                                                                                     \
	do {                                                                                                                         \
		__typeof__(*d) all[LANES], *const place = d;                                                                             \
		d = mask == ~0u ? place : all;                                                                                           \
		_Pragma("GCC ivdep") for (int l = 0; l < LANES; l++) { statement; }                                                      \
		for (int l = 0; mask != ~0u && l < LANES; l++)                                                                           \
			place[l] = mask >> l & 1 ? all[l] : place[l];                                                                        \
	} while (0)
// For loops that compilers do not vectorise anyway: half the code.
#define SLOW_LANE_LOOP(statement)                                                                                                \
	for (int l = 0; l < LANES; l++)                                                                                              \
		if (mask >> l & 1) { statement; }
#define REG(type, n) ((type *)(w->file + i->operand[n]))

// copy_number copies 1, 2, 4 or 8 bytes. With a size unknown to them, compilers use a slow string instruction.
static inline void copy_number(void *to, const void *from, u32 n) {
	switch (n) {
	case 1: memcpy(to, from, 1); break;
	case 2: memcpy(to, from, 2); break;
	case 4: memcpy(to, from, 4); break;
	default: memcpy(to, from, 8);
	}
}

// ones reports whether the n bytes, 1 to 8, are all 1. It reads all eight.
static inline bool ones(const u8 *p, u64 n) {
	u64 x;
	memcpy(&x, p, 8);
	return (x ^ 0x0101010101010101) << (64 - 8 * n) == 0;
}

static inline bool all_ones(const u8 *p, u64 n) {
	bool all = true;
	for (; n > 8; n -= 8, p += 8)
		all &= ones(p, 8);
	return all & ones(p, n);
}
#endif
