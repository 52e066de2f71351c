// 128-bit vectors, which every processor has. Arm has 32 registers and fused multiply-adds, so there it is
// fast and gives the bits of the wider variants; baseline x86-64 has neither.
#include "kernels.h"

#include <stdlib.h>
#include <string.h>

#define VL 4
#define MR 4
#ifdef __aarch64__
#define NV 4
#else
#define NV 2
#endif
#define VARIANT "portable"
#include "variant.inc"

const grpo_variant *grpo_portable(void) { return &variant; }
