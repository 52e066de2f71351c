// Emulates the instructions of a tile unit in the handler of SIGILL, which a processor without one raises for them.
#define _GNU_SOURCE
#include "decode.h"
#include "unit.h"

#include <cpuid.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { TILES = 8, ROWS = 16, ROW_BYTES = 64 };

// The operand of ldtilecfg.
typedef struct {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
} shapes;

// The tile state of a thread; palette 0 means that there are no tiles.
static __thread struct {
	shapes s;
	uint8_t tile[TILES][ROWS][ROW_BYTES];
} unit;

static int installed;
static int64_t executed, tile_holders, signals;
static struct sigaction previous;

static void fail(const char *why)
{
	const char *words[] = {"tile unit: ", why, "\n"};
	for (int i = 0; i < 3; i++)
		if (write(STDERR_FILENO, words[i], strlen(words[i])) < 0)
			break;
	_exit(70);
}

greg_t *grpo_register(greg_t *r, int number)
{
	static const int of[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
	                         REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
	return &r[of[number]];
}

void grpo_decode_address(const uint8_t *at, greg_t *r, int mod, int extended_index, int extended_base, instruction *i)
{
	const uint8_t *next = at + 1;
	int base = i->rm, index = 4;
	if (i->rm == 4) {
		base = *next & 7;
		index = (*next >> 3 & 7) | extended_index;
		if (index != 4)
			i->step = *grpo_register(r, index) << (*next >> 6);
		next++;
	}
	int absolute = mod == 0 && base == 5;
	int64_t address = absolute ? 0 : *grpo_register(r, base | extended_base);
	if (mod == 1) {
		address += (int8_t)*next++;
	} else if (mod == 2 || absolute) {
		int32_t displacement;
		memcpy(&displacement, next, 4);
		next += 4;
		address += displacement;
	}
	i->length = next - (const uint8_t *)r[REG_RIP];
	if (absolute && i->rm == 5)
		address += r[REG_RIP] + i->length;
	i->address = (char *)address;
}

static int decode(greg_t *r, instruction *i)
{
	const uint8_t *at = (const uint8_t *)r[REG_RIP];
	enum { THREE_BYTES = 0xC4, MAP = 2, WIDE_OR_LONG = 0x84 };
	memset(i, 0, sizeof *i);
	if (at[0] != THREE_BYTES || (at[1] & 0x1f) != MAP || (at[2] & WIDE_OR_LONG))
		return 0;
	int extended = ~at[1];
	i->prefix = at[2] & 3;
	i->other = ~at[2] >> 3 & 15;
	i->opcode = at[3];
	i->reg = (at[4] >> 3 & 7) | (extended >> 4 & 8);
	i->rm = at[4] & 7;
	i->in_registers = at[4] >> 6 == 3;
	i->length = 5;
	if (!i->in_registers)
		grpo_decode_address(at + 4, r, at[4] >> 6, extended >> 3 & 8, extended >> 2 & 8, i);
	else
		i->rm |= extended >> 2 & 8;
	return 1;
}

static void configure(const void *from)
{
	shapes s;
	memcpy(&s, from, sizeof s);
	if (s.palette != 1 || s.start_row)
		fail("ldtilecfg: a palette that there is not, or a start in the middle");
	for (int i = 0; i < 14; i++)
		if (s.reserved[i])
			fail("ldtilecfg: reserved bytes that are not zero");
	for (int i = 0; i < 16; i++) {
		if (s.rows[i] > ROWS || s.row_bytes[i] > ROW_BYTES || !s.rows[i] != !s.row_bytes[i] || (i >= TILES && s.rows[i]))
			fail("ldtilecfg: a tile of a shape that there is not");
	}
	if (!unit.s.palette)
		__atomic_add_fetch(&tile_holders, 1, __ATOMIC_RELAXED);
	unit.s = s;
	memset(unit.tile, 0, sizeof unit.tile);
}

static void release(void)
{
	if (unit.s.palette)
		__atomic_sub_fetch(&tile_holders, 1, __ATOMIC_RELAXED);
	unit.s.palette = 0;
}

static void check_tile(int t)
{
	if (!unit.s.palette)
		fail("an instruction without ldtilecfg before it");
	if (t >= TILES || !unit.s.rows[t])
		fail("a tile that ldtilecfg did not make");
}

static void zero(int t)
{
	check_tile(t);
	memset(unit.tile[t], 0, sizeof unit.tile[t]);
}

static void load(int t, const char *from, int64_t step)
{
	zero(t);
	for (int i = 0; i < unit.s.rows[t]; i++)
		memcpy(unit.tile[t][i], from + i * step, unit.s.row_bytes[t]);
}

static void store(int t, char *to, int64_t step)
{
	check_tile(t);
	for (int i = 0; i < unit.s.rows[t]; i++)
		memcpy(to + i * step, unit.tile[t][i], unit.s.row_bytes[t]);
}

static inline float widened(uint16_t x)
{
	uint32_t bits = (uint32_t)x << 16;
	float f;
	memcpy(&f, &bits, 4);
	return f;
}

// The unit treats subnormal numbers as zeros in every mode, so MXCSR is set for that here; a signal handler has its own.
__attribute__((target("avx2,fma"))) static void add_products(int c, int a, int b)
{
	enum { COLUMNS = ROW_BYTES / 4, FLUSH = 1 << 15 | 1 << 6 };
	uint32_t was, now;
	__asm__ volatile("stmxcsr %0" : "=m"(was) : : "memory");
	now = was | FLUSH;
	__asm__ volatile("ldmxcsr %0" : : "m"(now) : "memory");
	for (int i = 0; i < unit.s.rows[c]; i++) {
		float even[COLUMNS] = {0}, odd[COLUMNS] = {0}, sums[COLUMNS];
		uint16_t left[2 * COLUMNS], right[2 * COLUMNS];
		memcpy(left, unit.tile[a][i], sizeof left);
		for (int k = 0; k < unit.s.row_bytes[a] / 4; k++) {
			memcpy(right, unit.tile[b][k], sizeof right);
			float first = widened(left[2 * k]), second = widened(left[2 * k + 1]);
			for (int j = 0; j < COLUMNS; j++) {
				even[j] = __builtin_fmaf(first, widened(right[2 * j]), even[j]);
				odd[j] = __builtin_fmaf(second, widened(right[2 * j + 1]), odd[j]);
			}
		}
		memcpy(sums, unit.tile[c][i], sizeof sums);
		for (int j = 0; j < COLUMNS; j++)
			sums[j] += even[j] + odd[j];
		memcpy(unit.tile[c][i], sums, unit.s.row_bytes[c]);
	}
	__asm__ volatile("ldmxcsr %0" : : "m"(was) : "memory");
}

static void add(int c, int a, int b)
{
	check_tile(c);
	check_tile(a);
	check_tile(b);
	if (a == b || a == c || b == c)
		fail("tdpbf16ps: one tile in two places");
	const shapes *s = &unit.s;
	if (s->row_bytes[a] % 4 || s->row_bytes[b] % 4 || s->rows[c] != s->rows[a] || s->row_bytes[c] != s->row_bytes[b] ||
	    s->row_bytes[a] / 4 != s->rows[b])
		fail("tdpbf16ps: shapes that do not fit each other");
	add_products(c, a, b);
}

// Emulates an instruction of the unit. Returns 0 if it is not one.
static int execute(const instruction *i)
{
	enum { NONE, P66, PF3, PF2 };
	enum { SHAPES = 0x49, MOVE = 0x4B, PRODUCT = 0x5C };
	switch (i->opcode << 4 | i->prefix << 1 | i->in_registers) {
	case SHAPES << 4 | NONE << 1:
		configure(i->address);
		return 1;
	case SHAPES << 4 | NONE << 1 | 1:
		release();
		return 1;
	case SHAPES << 4 | PF2 << 1 | 1:
		zero(i->reg);
		return 1;
	case MOVE << 4 | PF2 << 1:
	case MOVE << 4 | P66 << 1:
		load(i->reg, i->address, i->step);
		return 1;
	case MOVE << 4 | PF3 << 1:
		store(i->reg, i->address, i->step);
		return 1;
	case PRODUCT << 4 | PF3 << 1 | 1:
		add(i->reg, i->rm, i->other);
		return 1;
	}
	return 0;
}

// A signal costs a thousand times more than most of these instructions. So the handler goes on with the following instructions, as long as
// they are of the unit, or simple ones that a loop has between them.
static void on_trap(int signal, siginfo_t *info, void *context)
{
	enum { MAX_BETWEEN = 150 };
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	int64_t done = 0;
	for (int in_between = 0; in_between < MAX_BETWEEN;) {
		instruction i;
		if (decode(r, &i) && execute(&i)) {
			r[REG_RIP] += i.length;
			done++, in_between = 0;
		} else if (done && grpo_execute_between(r)) {
			in_between++;
		} else {
			break;
		}
	}
	__atomic_add_fetch(&signals, 1, __ATOMIC_RELAXED);
	if (done)
		__atomic_add_fetch(&executed, done, __ATOMIC_RELAXED);
	else
		previous.sa_sigaction(signal, info, context);
}

int grpo_use_stand_in(void)
{
	enum { AMX_TILE = 1 << 24 };
	unsigned a, b, c, d;
	if (!__builtin_cpu_supports("fma") || !__builtin_cpu_supports("avx2"))
		return 0;
	// Kernels for the unit round to bf16 by an instruction that all processors with the unit have, but not all with AVX-512.
	if (__builtin_cpu_supports("avx512f") && !__builtin_cpu_supports("avx512bf16"))
		return 0;
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & AMX_TILE))
		return 0;
	struct sigaction act = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	sigfillset(&act.sa_mask);
	installed = !sigaction(SIGILL, &act, &previous);
	return installed;
}

// kernels/cpu calls this if it is linked: see tile_unit.c.
int grpo_tile_stand_in(void) { return installed; }

int64_t grpo_stand_in_executed(void) { return __atomic_load_n(&executed, __ATOMIC_RELAXED); }
int64_t grpo_stand_in_holders(void) { return __atomic_load_n(&tile_holders, __ATOMIC_RELAXED); }
int64_t grpo_stand_in_signals(void) { return __atomic_load_n(&signals, __ATOMIC_RELAXED); }
