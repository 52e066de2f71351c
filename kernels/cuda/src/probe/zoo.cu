// Evaluates every row of zoo.def over all inputs. Values of all kinds are stored as u64; out has a column of n for each row.
#include "probe.h"

DEVICE float as_float(u64 v) { return __builtin_bit_cast(float, (u32)v); }
DEVICE double as_double(u64 v) { return __builtin_bit_cast(double, v); }

#define IN_U(v) (u32)(v)
#define IN_L(v) (v)
#define IN_F(v) as_float(v)
#define IN_D(v) as_double(v)
#define IN_H(v) (u16)(v)
#define C_U "r"
#define C_L "l"
#define C_F "f"
#define C_D "d"
#define C_H "h"
#define OUT_U(ptx, ...) ({ u32 r; asm volatile(ptx : "=r"(r) : __VA_ARGS__); (u64)r; })
#define OUT_L(ptx, ...) ({ u64 r; asm volatile(ptx : "=l"(r) : __VA_ARGS__); r; })
#define OUT_H(ptx, ...) ({ u16 r; asm volatile(ptx : "=h"(r) : __VA_ARGS__); (u64)r; })
#define OUT_F(ptx, ...) ({ float r; asm volatile(ptx : "=f"(r) : __VA_ARGS__); (u64)__builtin_bit_cast(u32, r); })
#define OUT_D(ptx, ...) ({ double r; asm volatile(ptx : "=d"(r) : __VA_ARGS__); __builtin_bit_cast(u64, r); })

#define ONE(x, result, ptx) OUT_##result(ptx, C_##x(IN_##x(a)))
#define TWO(x, y, result, ptx) OUT_##result(ptx, C_##x(IN_##x(a)), C_##y(IN_##y(b)))
#define THREE(x, y, z, result, ptx) OUT_##result(ptx, C_##x(IN_##x(a)), C_##y(IN_##y(b)), C_##z(IN_##z(c)))

#define UU(p) ONE(U, U, p)
#define UL(p) ONE(U, L, p)
#define UF(p) ONE(U, F, p)
#define UH(p) ONE(U, H, p)
#define LU(p) ONE(L, U, p)
#define LF(p) ONE(L, F, p)
#define FU(p) ONE(F, U, p)
#define FF(p) ONE(F, F, p)
#define FD(p) ONE(F, D, p)
#define FH(p) ONE(F, H, p)
#define DF(p) ONE(D, F, p)
#define HU(p) ONE(H, U, p)
#define HF(p) ONE(H, F, p)
#define UUU(p) TWO(U, U, U, p)
#define UUL(p) TWO(U, U, L, p)
#define LUL(p) TWO(L, U, L, p)
#define LLL(p) TWO(L, L, L, p)
#define FFU(p) TWO(F, F, U, p)
#define FFF(p) TWO(F, F, F, p)
#define DDD(p) TWO(D, D, D, p)
#define HHH(p) TWO(H, H, H, p)
#define HHU(p) TWO(H, H, U, p)
#define UUUU(p) THREE(U, U, U, U, p)
#define FFFF(p) THREE(F, F, F, F, p)
#define DDDD(p) THREE(D, D, D, D, p)

KERNEL zoo(u64 *out, const u64 *in, u32 n) {
	u32 i = index();
	if (i >= n)
		return;
	u64 a = in[i], b = in[n + i], c = in[2 * n + i];
#define ROW(kinds, ptx, value) out[i] = kinds(ptx), out += n;
#include "zoo.def"
}
