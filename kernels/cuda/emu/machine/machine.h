// The PTX machine executes kernels, in the PTX that the driver would get, on the CPU, and checks them while they run.
//
//   text.c      the tokens of PTX
//   module.c    directives: kernels, their registers, parameters and memory; variables of a module
//   decode.c    an instruction: its operands become offsets in the register file
//   choose.c    the function that executes an instruction;  choose_memory.c  the same for instructions with an address
//   registers.c register allocation
//   op_*.c      the functions that execute instructions, and tables of their names
//   warp.c      32 lanes and their program counters;  run.c  blocks and barriers, and the distribution of blocks over host threads
//   global.c    global memory;  records.c  its last accesses;  shared.c  shared and local memory, with its accesses;  finding.c  reports
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

enum { LANES = 32, MAX_WARPS = 32, MAX_OPERANDS = 16, MAX_BARRIERS = 16 };

// Generic addresses: a number of 4 GB. 1 is the window of shared memory, 2 of local memory, more is an allocation.
enum { SHARED_WINDOW = 1, LOCAL_WINDOW = 2, FIRST_SLOT = 16, SLOTS = 1 << 16 };

typedef struct Warp Warp;
typedef struct Ins Ins;
typedef void Handler(Warp *w, const Ins *i, u32 mask);

// How an instruction changes the program counter.
typedef enum { FALL_THROUGH, BRANCH, EXIT, BARRIER } Flow;

// Memory spaces of an instruction.
typedef enum { GLOBAL, SHARED, LOCAL, PARAM, GENERIC } Space;

// Ins is one decoded instruction. Registers, constants and special registers are arrays of 32 lanes in one file per warp; an operand is
// its byte offset there.
struct Ins {
	Handler *run;
	u32 operand[MAX_OPERANDS];
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
	u8 variant;       // a choice between forms of the instruction, which its function knows
	u32 line;
	const char *text;
};

typedef struct {
	char *name;
	u32 at, size;
} Symbol;

typedef struct {
	Symbol *all;
	int n, capacity;
} Symbols;

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
	u32 n, capacity;
	Symbols parameters, locals;
	u32 parameter_bytes, local_bytes, shared_bytes, file_bytes;
	Constant *constants;
	Range *ranges;
	int n_constants, n_ranges;
	bool registers_allocated; // see registers.c
	u32 max_threads;          // .maxntid; 0: any
	u32 max_dynamic;          // bytes of dynamic shared memory that the function attribute allows
	int declared_registers;   // of 32 bits; only for the function attribute
	struct Kernel *next;
} Kernel;

typedef struct Module {
	char *text;
	Kernel *kernels;
	Symbols variables;    // at: the index in allocations
	struct Allocation **allocations;
	int version, target;
} Module;

// AccessRecord records the last write and the last reads of 4 or 16 bytes of global memory.
typedef struct {
	_Atomic u64 wrote, read;
} AccessRecord;

typedef struct Allocation {
	u64 base, size;
	u8 *bytes, *valid;    // valid: one per byte
	AccessRecord *lines, *words; // one per 16 bytes; one per four bytes, used where lines were touched in parts
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
	u32 members;           // a bit for each warp that takes part
} Barrier;

// SharedRecord records accesses to 4 or 16 bytes of shared memory. Times are of the block's clock, which every barrier advances.
typedef struct {
	u32 written, read;     // times
	u32 readers;           // a bit for each warp
	u16 writer;            // thread
	u8 bytes;              // which were written (low half) and read (high half)
	u8 lane;               // of the reader in its warp, or MANY
} SharedRecord;

// Line is the records of 16 bytes of shared memory: one for all, or one for each word if the current block touched parts of the line. If
// several lanes accessed it together, the record is of the first lane, and the others follow from the number of bytes of each.
typedef struct {
	SharedRecord whole;
	u32 split_since;       // the start of the block that touched parts
	u8 bytes_per_writer, bytes_per_reader;
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
	int waiting_at;        // the number of a barrier; -1: running
	u32 committed_groups[LANES]; // of cp.async
	Copy *copies;
	int n_copies, capacity;
	u8 *local, *local_valid;
};

// Buffer is memory that a block reuses between launches.
typedef struct {
	u8 *bytes;
	size_t size;
} Buffer;
enum { SHARED_BYTES, SHARED_VALID, LINES, WORDS, FILES, LOCALS, BUFFERS };

typedef struct Block {
	Launch *launch;
	u64 number;
	u32 at[3];
	u8 *shared, *shared_valid;
	Line *lines;
	SharedRecord *words;   // of lines that were touched in parts
	u32 clock, start;      // start: the clock when the block began
	u32 seen[MAX_WARPS][MAX_WARPS]; // the vector clock of each warp: see shared.c
	Barrier barriers[MAX_BARRIERS];
	Warp warps[MAX_WARPS];
	u64 executed;
	jmp_buf stop;
	Allocation *last;      // the allocation last accessed, which the next access probably uses, too
	Buffer buffers[BUFFERS];
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
__attribute__((noreturn, format(printf, 5, 6))) void report(Warp *w, const Ins *i, int lane, Kind kind, const char *form, ...);
void print_finding(Kind kind, const char *text);
int count_findings(void);
const char *kind_name(Kind kind);

// global.c
extern Allocation *slots[SLOTS];
typedef enum { READ, WRITE, UPDATE } AccessMode;
Allocation *allocate(u64 size, const char *what);
void release(Allocation *a);
Allocation *find_allocation(u64 address);
u8 *global_lane(Warp *w, const Ins *i, int lane, u64 address, u32 n, AccessMode mode);
u8 *global_lanes(Warp *w, const Ins *i, u32 lane, u32 lanes, u64 address, u32 n, AccessMode mode);
bool touch_range(Allocation *a, u64 offset, u64 n, AccessMode mode, u32 operation, char *why, size_t size);
void describe_bad_address(u64 address, u32 n, char *text, size_t size, Kind *kind);
extern u32 completed_operation, one_stream_since;

// stream.c of the driver: which operations can run at the same time
bool operation_is_ordered(u32 earlier, u32 later);
void describe_operations(u32 earlier, u32 later, char *text, size_t size);

// shared.c
u8 *shared_lane(Warp *w, const Ins *i, int lane, u32 at, u32 n, AccessMode mode);
u8 *shared_lanes(Warp *w, const Ins *i, u32 lane, u32 lanes, u32 at, u32 n, AccessMode mode);
void shared_in_flight(Warp *w, const Ins *i, int lane, u32 at, u32 n);
u8 *local_lane(Warp *w, const Ins *i, int lane, u32 at, u32 n, AccessMode mode);

// module.c, decode.c, text.c, registers.c
Module *load_module(const char *text, int newest_version, int capability, char *log, size_t log_size, int *status);
void unload_module(Module *m);
static inline u32 register_bytes(u32 size) { return size ? size * LANES : 4; } // in a warp's register file
void allocate_registers(Kernel *k);

// warp.c
void run_warp(Warp *w);
void begin_warp(Block *b, Warp *w);
void set_constants(Warp *w, const Kernel *k);

// run.c
void run_launch(Launch *l);
u32 host_threads(void);

// Opcode is an entry of the tables of instructions: a name, its function, and the sizes of its operands, in the notation of set_operands.
typedef struct {
	const char *name;
	Handler *run;
	const char *operands;
} Opcode;
extern const Opcode integer_opcodes[], bit_opcodes[], float_opcodes[], compare_opcodes[], convert_opcodes[], warp_opcodes[],
	matrix_opcodes[];

// Computes d[l] for all lanes, which compilers vectorise, and stores it for those of the mask.
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

// copy_number copies 1, 2, 4 or 8 bytes. For a size that is not a constant, compilers use a slow string instruction.
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
