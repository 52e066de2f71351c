// Operands as instructions name them, for what executes those of the unit and those between them.
#include <stdint.h>
#include <ucontext.h>

// An instruction of the unit, in the encoding that all of them have (VEX, map 0F38); of others, only its operand in memory.
typedef struct {
	int prefix, opcode, in_registers, reg, rm, other;
	char *address; // base and displacement
	int64_t step;  // the scaled index
	int length;
} instruction;

// A register that has a number in instructions.
greg_t *grpo_register(greg_t *r, int number);

// The operand in memory, whose bytes begin behind the one at at.
void grpo_decode_address(const uint8_t *at, greg_t *r, int mod, int extended_index, int extended_base, instruction *i);

// Executes the instruction that is next if it is one of those that a compiler puts between the unit's. 0: it is none.
int grpo_execute_between(greg_t *r);
