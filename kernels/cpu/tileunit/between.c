// Emulates the integer instructions that a compiler puts between those of the unit in a loop: moves, addresses, sums, shifts,
// comparisons, jumps. Emulating them, too, saves signals, each of which costs an entry into the operating system.
#define _GNU_SOURCE
#include "decode.h"

#include <string.h>

enum { ADD, OR, AND = 4, SUB, XOR, CMP, TEST, MOVE };
enum { CARRY = 1, PARITY = 4, ZERO = 0x40, SIGN = 0x80, BY_LAHF = 0xd5, OVERFLOW = 0x800 };

// Sets the flags of a context from an operation's: lahf has stored five of them in ah, and seto the overflow flag in al.
static void set_flags(greg_t *r, uint32_t of)
{
	r[REG_EFL] &= ~(BY_LAHF | OVERFLOW);
	r[REG_EFL] |= (of >> 8 & BY_LAHF) | (of & 1 ? OVERFLOW : 0);
}

// Runs the operation itself, so that the processor computes the flags.
#define DO(which, name)                                                                                               \
	case which:                                                                                                   \
		__asm__(name " %2, %0\n\tlahf\n\tseto %%al" : "+r"(a), "=&a"(flags) : "r"(b) : "cc");                \
		break;
#define OPERATE(function, type)                                                                                       \
	static uint64_t function(int what, type a, type b, greg_t *r)                                                 \
	{                                                                                                             \
		uint32_t flags = 0;                                                                                   \
		switch (what) {                                                                                       \
			DO(ADD, "add") DO(OR, "or") DO(AND, "and") DO(SUB, "sub") DO(XOR, "xor") DO(CMP, "cmp") DO(TEST, "test") \
		default:                                                                                              \
			return b;                                                                                     \
		}                                                                                                     \
		set_flags(r, flags);                                                                                  \
		return a;                                                                                             \
	}
OPERATE(operate_32, uint32_t)
OPERATE(operate_64, uint64_t)

// A shift to the left of a register by an immediate number of bits.
static int shift(const uint8_t *at, int rex, greg_t *r)
{
	greg_t *to = grpo_register(r, (*at & 7) | (rex << 3 & 8));
	uint8_t bits = at[1] & (rex & 8 ? 63 : 31);
	if (*at >> 6 != 3 || !bits)
		return 0;
	uint64_t flags = 0, value = *to;
	if (rex & 8)
		__asm__("shl %%cl, %0\n\tlahf\n\tseto %%al" : "+r"(value), "=&a"(flags) : "c"(bits) : "cc");
	else
		__asm__("shl %%cl, %k0\n\tlahf\n\tseto %%al" : "+r"(value), "=&a"(flags) : "c"(bits) : "cc");
	set_flags(r, flags);
	*to = value;
	r[REG_RIP] = (greg_t)(at + 2);
	return 1;
}

static int condition_holds(int condition, greg_t f)
{
	int less = !(f & SIGN) != !(f & OVERFLOW), yes = 0;
	switch (condition >> 1) {
	case 0:
		yes = (f & OVERFLOW) != 0;
		break;
	case 1:
		yes = (f & CARRY) != 0;
		break;
	case 2:
		yes = (f & ZERO) != 0;
		break;
	case 3:
		yes = (f & (CARRY | ZERO)) != 0;
		break;
	case 4:
		yes = (f & SIGN) != 0;
		break;
	case 5:
		yes = (f & PARITY) != 0;
		break;
	case 6:
		yes = less;
		break;
	case 7:
		yes = less || f & ZERO;
		break;
	}
	return yes != (condition & 1);
}

// Accesses memory without the address sanitiser's checks: its own code uses such instructions to update its shadow memory, and a checked
// access to that would be reported.
#define UNCHECKED __attribute__((no_sanitize_address, noinline))
typedef uint64_t __attribute__((may_alias, aligned(1))) long_word;
typedef uint32_t __attribute__((may_alias, aligned(1))) word;

UNCHECKED static uint64_t get(const char *from, int wide)
{
	return wide ? *(const long_word *)from : *(const word *)from;
}

UNCHECKED static void put(char *to, uint64_t value, int wide)
{
	if (wide)
		*(long_word *)to = value;
	else
		*(word *)to = value;
}

static int64_t immediate(const uint8_t *at, int bytes)
{
	int32_t wide;
	if (bytes == 1)
		return (int8_t)*at;
	memcpy(&wide, at, 4);
	return wide;
}

static int jump(const uint8_t *at, int opcode, greg_t *r)
{
	int bytes = 4, taken = 1;
	if (opcode == 0xEB || opcode >> 4 == 7)
		bytes = 1;
	if (opcode != 0xEB && opcode != 0xE9)
		taken = condition_holds(opcode & 15, r[REG_EFL]);
	r[REG_RIP] = (greg_t)(at + bytes) + (taken ? immediate(at, bytes) : 0);
	return 1;
}

// An operation on a register or memory, and a register or an immediate.
static int operation(const uint8_t *at, int rex, int opcode, int what, greg_t *r)
{
	enum { TO_REGISTER = 2 };
	int mod = *at >> 6, reg = (*at >> 3 & 7) | (rex << 1 & 8), wide = rex >> 3 & 1, bytes = 0;
	instruction i = {.rm = *at & 7};
	if (opcode == 0x81 || opcode == 0xC7)
		bytes = 4;
	if (opcode == 0x83)
		bytes = 1;
	if (mod == 3)
		i.address = (char *)grpo_register(r, i.rm | (rex << 3 & 8)), i.length = at + 1 - (const uint8_t *)r[REG_RIP];
	else if (mod == 0 && i.rm == 5)
		return 0; // relative to RIP: its displacement counts from the end of the instruction
	else
		grpo_decode_address(at, r, mod, rex << 2 & 8, rex << 3 & 8, &i);
	char *to = i.address + i.step;
	if (opcode == 0x8D) { // the address itself
		uint64_t address = (uint64_t)to;
		*grpo_register(r, reg) = wide ? address : (uint32_t)address;
		r[REG_RIP] += i.length;
		return 1;
	}
	uint64_t other = 0;
	int in_register = mod == 3;
	if (bytes) {
		other = immediate((const uint8_t *)r[REG_RIP] + i.length, bytes);
	} else if (opcode & TO_REGISTER) {
		other = get(to, wide);
		to = (char *)grpo_register(r, reg);
		in_register = 1;
	} else {
		other = *grpo_register(r, reg);
	}
	uint64_t value = 0;
	if (what != MOVE)
		value = get(to, wide);
	value = wide ? operate_64(what, value, other, r) : operate_32(what, value, other, r);
	if (what != CMP && what != TEST)
		put(to, value, wide || in_register); // a register's upper half becomes zero
	r[REG_RIP] += i.length + bytes;
	return 1;
}

static int operation_on_rax(const uint8_t *at, int rex, int what, greg_t *r)
{
	uint64_t value = r[REG_RAX], other = immediate(at, 4);
	value = rex & 8 ? operate_64(what, value, other, r) : operate_32(what, value, other, r);
	if (what != CMP)
		r[REG_RAX] = value;
	r[REG_RIP] = (greg_t)(at + 4);
	return 1;
}

// A move between registers under a condition. Without it, too, the upper half of a 32-bit register becomes zero.
static int conditional_move(const uint8_t *at, int rex, greg_t *r)
{
	if (at[1] >> 6 != 3)
		return 0;
	greg_t *to = grpo_register(r, (at[1] >> 3 & 7) | (rex << 1 & 8));
	uint64_t value = condition_holds(*at & 15, r[REG_EFL]) ? *grpo_register(r, (at[1] & 7) | (rex << 3 & 8)) : *to;
	*to = rex & 8 ? value : (uint32_t)value;
	r[REG_RIP] = (greg_t)(at + 2);
	return 1;
}

// Opcodes of two bytes: jumps, moves under a condition, no-ops and prefetches.
static int two_byte_opcode(const uint8_t *at, int rex, greg_t *r)
{
	if (*at >> 4 == 8)
		return jump(at + 1, *at, r);
	if (*at >> 4 == 4)
		return conditional_move(at, rex, r);
	if (*at != 0x18 && *at != 0x1F)
		return 0;
	instruction i = {.rm = at[1] & 7};
	if (at[1] >> 6 == 3)
		return 0;
	grpo_decode_address(at + 1, r, at[1] >> 6, rex << 2 & 8, rex << 3 & 8, &i);
	r[REG_RIP] += i.length;
	return 1;
}

int grpo_execute_between(greg_t *r)
{
	const uint8_t *at = (const uint8_t *)r[REG_RIP];
	int rex = 0;
	if (at[0] == 0x66 && at[1] == 0x0F && at[2] == 0x1F)
		return two_byte_opcode(at + 2, 0, r);
	if (*at >> 4 == 4)
		rex = *at++;
	int opcode = *at++, group_opcode = *at >> 3 & 7;
	if (opcode >> 4 == 7 || opcode == 0xEB || opcode == 0xE9)
		return jump(at, opcode, r);
	if (opcode < 0x40 && ((opcode & 7) == 1 || (opcode & 7) == 3) && opcode >> 3 != 2 && opcode >> 3 != 3)
		return operation(at, rex, opcode, opcode >> 3, r);
	if (opcode < 0x40 && (opcode & 7) == 5 && opcode >> 3 != 2 && opcode >> 3 != 3) // rax and an immediate
		return operation_on_rax(at, rex, opcode >> 3, r);
	if (opcode >> 3 == 0xB8 >> 3 && !(rex & 8)) {
		*grpo_register(r, (opcode & 7) | (rex << 3 & 8)) = (uint32_t)immediate(at, 4);
		r[REG_RIP] = (greg_t)(at + 4);
		return 1;
	}
	switch (opcode) {
	case 0x0F:
		return two_byte_opcode(at, rex, r);
	case 0x81:
	case 0x83:
		return group_opcode != 2 && group_opcode != 3 && operation(at, rex, opcode, group_opcode, r);
	case 0x85:
		return operation(at, rex, opcode, TEST, r);
	case 0xC1:
		return group_opcode == 4 && shift(at, rex, r);
	case 0x89:
	case 0x8B:
	case 0x8D:
		return operation(at, rex, opcode, MOVE, r);
	case 0xC7:
		return group_opcode == 0 && operation(at, rex, opcode, MOVE, r);
	}
	return 0;
}
