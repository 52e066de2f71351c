// Decoding of operands, for the emulation of the unit's instructions and of those between them.
#include <stdint.h>
#include <ucontext.h>

// An instruction of the unit in its encoding (VEX, map 0F38); for other instructions only the memory operand.
typedef struct {
	int prefix, opcode, in_registers, reg, rm, other;
	char *address; // base and displacement
	int64_t step;  // the scaled index
	int length;
} instruction;

// The register with a number of the instruction encoding.
greg_t *grpo_register(greg_t *r, int number);

// Decodes a memory operand, whose bytes begin after the one at `at`.
void grpo_decode_address(const uint8_t *at, greg_t *r, int mod, int extended_index, int extended_base, instruction *i);

// Emulates the next instruction if it is one that compilers put between those of the unit. Returns 0 if it is not.
int grpo_execute_between(greg_t *r);
