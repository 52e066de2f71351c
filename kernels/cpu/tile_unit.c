// Whether the tile unit (AMX) may be used: the processor must have it, and the kernel must grant the 8 kB of state that it
// adds to every thread. The grant is for the whole process, and permanent.
#define _GNU_SOURCE
#include "kernels.h"

#ifdef TILE_KERNELS
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

// Defined in tests that emulate the unit's instructions when the processor traps them (package tileunit).
__attribute__((weak)) int grpo_tile_stand_in(void);

int grpo_tile_unit(void)
{
	enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24 }; // leaf 7, edx
	enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
	unsigned a, b, c, d;
	if (grpo_tile_stand_in && grpo_tile_stand_in())
		return TILES_GRANTED;
	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & AMX_BF16) || !(d & AMX_TILE))
		return TILES_ABSENT;
	return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) ? TILES_REFUSED : TILES_GRANTED;
}
#else
int grpo_tile_unit(void) { return TILES_NOT_BUILT; }
#endif
