// Single instructions of the unit, with every form of memory operand that a compiler may choose.
#include "unit.h"

#include <string.h>

typedef struct {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
} shapes;

static shapes fixed;

static shapes of(int rows, int pairs, int columns)
{
	shapes s = {.palette = 1};
	s.rows[0] = s.rows[7] = rows;
	s.row_bytes[0] = 4 * columns;
	s.row_bytes[7] = 4 * pairs;
	s.rows[3] = pairs;
	s.row_bytes[3] = 4 * columns;
	return s;
}

void grpo_try_tiles(int rows, int pairs, int columns, float *sums, int64_t sums_row, const void *left, int64_t left_row,
                    const void *right, int64_t right_row)
{
	fixed = of(rows, pairs, columns);
	__asm__ volatile("ldtilecfg %0" : : "m"(fixed));
	__asm__ volatile("tilezero %tmm0");
	__asm__ volatile("tileloadd (%0,%1,1), %%tmm0" : : "r"(sums), "r"(sums_row) : "memory");
	register int64_t quarter __asm__("r13") = left_row / 4; // as index and, below, as base
	__asm__ volatile("tileloadd -0x1000(%0,%1,4), %%tmm7" : : "r"((const char *)left + 0x1000), "r"(quarter) : "memory");
	register const char *base __asm__("r12") = (const char *)right - 8;
	__asm__ volatile("tileloaddt1 8(%0,%1,1), %%tmm3" : : "r"(base), "r"(right_row) : "memory");
	__asm__ volatile("tdpbf16ps %tmm3, %tmm7, %tmm0");
	register float *to __asm__("r13") = sums;
	__asm__ volatile("tilestored %%tmm0, (%0,%1,2)" : : "r"(to), "r"(sums_row / 2) : "memory");
	__asm__ volatile("tilerelease");
}

void grpo_try_mistake(int which)
{
	shapes s = of(16, 16, 16);
	char memory[2048];
	memset(memory, 0, sizeof memory);
	switch (which) {
	case 1:
		s.palette = 2;
		break;
	case 2:
		s.row_bytes[9] = 64, s.rows[9] = 16;
		break;
	case 3:
		s.rows[0] = 17;
		break;
	case 4:
		s.rows[3] = 8;
		break;
	}
	if (which)
		__asm__ volatile("ldtilecfg %0" : : "m"(s));
	if (which == 5)
		__asm__ volatile("tilezero %tmm1");
	if (which == 6)
		__asm__ volatile(".byte 0xc4, 0xe2, 0x42, 0x5c, 0xc7"); // tdpbf16ps %tmm7, %tmm7, %tmm0, which assemblers refuse
	if (which == 7)
		__asm__ volatile("ud2");
	__asm__ volatile("tileloadd (%0,%1,1), %%tmm0" : : "r"(memory), "r"((int64_t)64) : "memory");
	__asm__ volatile("tdpbf16ps %tmm3, %tmm7, %tmm0");
}
