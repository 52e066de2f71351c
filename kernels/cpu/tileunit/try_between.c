// Instructions that compilers put between those of the unit, and records of registers, memory and all conditions after each.
#include "unit.h"

#define ASK(jump, bit) jump " 1f\n\tlea " #bit "(%%rdx), %%rdx\n1:\t"
#define CONDITIONS                                                                                                    \
	ASK("jb", 4) ASK("jae", 8) ASK("je", 0x10) ASK("jne", 0x20) ASK("jbe", 0x40) ASK("ja", 0x80)                  \
	ASK("js", 0x100) ASK("jns", 0x200) ASK("jp", 0x400) ASK("jnp", 0x800)
#define CONDITIONS_OF_OVERFLOW                                                                                        \
	ASK("jo", 1) ASK("jno", 2) ASK("jl", 0x1000) ASK("jge", 0x2000) ASK("jle", 0x4000) ASK("jg", 0x8000)
#define NOTE "mov %%rdx, (%%r13)\n\tmov %%rax, 8(%%r13)\n\tlea 16(%%r13), %%r13\n\t"
#define AFTER(operation) operation "\n\tmov $0, %%edx\n\t" CONDITIONS CONDITIONS_OF_OVERFLOW NOTE
#define AFTER_SHIFT(operation) operation "\n\tmov $0, %%edx\n\t" CONDITIONS NOTE // which leaves overflow undefined

// `of` comes between the operations: an instruction of the unit, or nothing. The operands are a in rdi, b in rsi, rax, and the two numbers
// at the beginning of `to`, after which the results are written.
#define TRY(of)                                                                                                       \
	__asm__ volatile(                                                                                             \
		of AFTER("mov %%rdi, %%rax\n\tadd %%rsi, %%rax") of AFTER("sub %%esi, %%eax") of AFTER("or %%rdi, %%rax") \
		of AFTER("and $-16, %%rax") of AFTER("xor %%esi, %%eax") of AFTER("add $0x12345678, %%rax")           \
		of AFTER("cmp %%rsi, %%rdi") of AFTER("cmp %%esi, %%edi") of AFTER("test %%rsi, %%rdi")               \
		of AFTER("test %%edi, %%esi") of AFTER("addq $0x20, (%%r12)") of AFTER("cmpl $-7, 8(%%r12)")          \
		of AFTER("sub 8(%%r12), %%rax") of AFTER("xor %%eax, 8(%%r12)") of AFTER("mov (%%r12), %%eax")        \
		of AFTER("mov $0x87654321, %%eax") of AFTER("movq $-3, (%%r12)") of AFTER("or %%edi, (%%r12)")        \
		of AFTER("lea -8(%%rsi,%%rdi,8), %%rax") of AFTER("imul 8(%%r12), %%rax")                             \
		of AFTER("lea 0x12345(%%rdi,%%rsi,2), %%eax") of AFTER_SHIFT("shl $4, %%rax")                         \
		of AFTER("cmp $-128000, %%eax") of AFTER("cmp %%rsi, %%rdi\n\tcmovle %%rsi, %%rax")                   \
		of AFTER("cmovb %%edi, %%eax") of AFTER_SHIFT("shl $7, %%eax") of AFTER("xor $0x12345678, %%eax")     \
		of AFTER("jmp 2f\n\tud2\n2:\tnopl (%%rax)\n\tnopw 0(%%rax,%%rax,1)\n\tprefetcht1 (%%rsp)\n\tnop")     \
		of                                                                                                    \
		: "+r"(memory), "+r"(results)                                                                         \
		: "r"(first), "r"(second)                                                                     \
		: "rax", "rdx", "memory", "cc")

void grpo_try_between(int unit, int64_t a, int64_t b, int64_t *to)
{
	static const uint8_t shapes[64] = {[0] = 1, [16] = 64, [48] = 16}; // one tile
	register int64_t first __asm__("rdi") = a;
	register int64_t second __asm__("rsi") = b;
	register int64_t *memory __asm__("r12") = to;
	register int64_t *results __asm__("r13") = to + 2;
	if (unit) {
		__asm__ volatile("ldtilecfg %0" : : "m"(shapes));
		TRY("tilezero %%tmm0\n\t");
		__asm__ volatile("tilerelease");
	} else {
		TRY("");
	}
}
