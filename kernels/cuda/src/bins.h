// Counting into bins of shared memory. Counts are integers, so that the order does not matter.
#pragma once
#include "kernel.h"

template <class Number> DEVICE u32 shared_address(const Number *p) { return (u32)(u64)(__attribute__((address_space(3))) const Number *)p; }
DEVICE void count_into(u32 *bin, u32 n) { asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(shared_address(bin)), "r"(n) : "memory"); }
DEVICE void count_into(u64 *bin, u64 n) { asm volatile("red.shared.add.u64 [%0], %1;" ::"r"(shared_address(bin)), "l"(n) : "memory"); }
