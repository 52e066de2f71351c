// Single instructions on random numbers and edge cases of each kind, compared with the same in C.
#include "probe.h"

#include <math.h>

enum { N = 4096 };

static u32 reversed(u32 v) {
	u32 r = 0;
	for (int n = 0; n < 32; n++)
		r |= (v >> n & 1) << (31 - n);
	return r;
}

static float lesser(float a, float b) {
	if (isnan(a) || isnan(b))
		return isnan(a) ? b : a;
	return a < b || (a == b && signbit(a)) ? a : b;
}

static float flush_subnormal(float a) { return isnan(a) || fabsf(a) >= 0x1p-126f ? a : copysignf(0, a); }

// negated flips the sign of a NaN, too, which the host's minus need not.
static float negated(float a) { return copysignf(a, signbit(a) ? 1.0f : -1.0f); }

static s64 saturated(double v, s64 low, s64 high) { return isnan(v) ? 0 : v <= (double)low ? low : v >= (double)high ? high : (s64)v; }

static u16 to_bf16(float f) { return isnan(f) ? 0x7fff : bf16(f); }

// to_f16 rounds to nearest, ties to even, by arithmetic on the number's exponent.
static u16 to_f16(float f) {
	if (isnan(f))
		return 0x7fff;
	u16 sign = signbit(f) ? 0x8000 : 0;
	double v = fabs((double)f), unit = 0x1p-24;
	if (v >= 65520)
		return sign | 0x7c00;
	while (v / unit >= 2048)
		unit *= 2;
	double n = rint(v / unit); // below 2048: the number in units of its last place
	if (n >= 2048)
		n /= 2, unit *= 2;
	u16 exponent = 0;
	for (double u = unit; n >= 1024 && u >= 0x1p-24; u /= 2)
		exponent++;
	return (u16)(sign | (n < 1024 ? (u16)n : exponent << 10 | ((u16)n & 1023)));
}
static float from_f16(u16 h) {
	u32 e = h >> 10 & 31, m = h & 1023;
	double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, (int)e - 25) : ldexp(m, -24);
	return (float)(h & 0x8000 ? -v : v);
}

// bits_of_float returns the bits of a result. A NaN that the device computes has these bits, whatever the host's has.
static u64 bits_of_float(float f) {
	u32 b;
	memcpy(&b, &f, 4);
	return isnan(f) ? 0x7fffffff : b;
}
static u64 bits_of_double(double d) {
	u64 b;
	memcpy(&b, &d, 8);
	return isnan(d) ? 0x7ff8000000000000 : b;
}
static float as_float(u64 v) {
	float f;
	memcpy(&f, &v, 4);
	return f;
}
static double as_double(u64 v) {
	double d;
	memcpy(&d, &v, 8);
	return d;
}

#define T_U u32
#define T_L u64
#define T_H u16
#define T_F float
#define T_D double
#define IN_U(v) (u32)(v)
#define IN_L(v) (v)
#define IN_H(v) (u16)(v)
#define IN_F(v) as_float(v)
#define IN_D(v) as_double(v)
#define OUT_U(v) (u64)(u32)(v)
#define OUT_L(v) (u64)(v)
#define OUT_H(v) (u64)(u16)(v)
#define OUT_F(v) bits_of_float(v)
#define OUT_D(v) bits_of_double(v)

#define ONE(x, result, value) { T_##x a = IN_##x(p); (void)a; return OUT_##result(value); }
#define TWO(x, y, result, value) { T_##x a = IN_##x(p); T_##y b = IN_##y(q); (void)a, (void)b; return OUT_##result(value); }
#define THREE(x, y, z, result, value) { T_##x a = IN_##x(p); T_##y b = IN_##y(q); T_##z c = IN_##z(r); return OUT_##result(value); }
#define UU(v) ONE(U, U, v)
#define UL(v) ONE(U, L, v)
#define UF(v) ONE(U, F, v)
#define UH(v) ONE(U, H, v)
#define LU(v) ONE(L, U, v)
#define LF(v) ONE(L, F, v)
#define FU(v) ONE(F, U, v)
#define FF(v) ONE(F, F, v)
#define FD(v) ONE(F, D, v)
#define FH(v) ONE(F, H, v)
#define DF(v) ONE(D, F, v)
#define HU(v) ONE(H, U, v)
#define HF(v) ONE(H, F, v)
#define UUU(v) TWO(U, U, U, v)
#define UUL(v) TWO(U, U, L, v)
#define LUL(v) TWO(L, U, L, v)
#define LLL(v) TWO(L, L, L, v)
#define FFU(v) TWO(F, F, U, v)
#define FFF(v) TWO(F, F, F, v)
#define DDD(v) TWO(D, D, D, v)
#define HHH(v) TWO(H, H, H, v)
#define HHU(v) TWO(H, H, U, v)
#define UUUU(v) THREE(U, U, U, U, v)
#define FFFF(v) THREE(F, F, F, F, v)
#define DDDD(v) THREE(D, D, D, D, v)

// want computes one row of zoo.def for one set of inputs.
static u64 want(int row, u64 p, u64 q, u64 r) {
	int n = 0;
#define ROW(kinds, ptx, value)                                                                                                   \
	if (row == n++)                                                                                                              \
		kinds(value)
#include "../../src/probe/zoo.def"
#undef ROW
	return 0;
}

static const struct { const char *kinds, *ptx; } rows[] = {
#define ROW(kinds, ptx, value) {#kinds, ptx},
#include "../../src/probe/zoo.def"
#undef ROW
};
enum { ROWS = sizeof rows / sizeof *rows };

// edge draws numbers at the limits of each kind: zeros, ones, signs, subnormals, infinities, NaN, shifts beyond the width.
static u64 edge(void) {
	static const u64 all[] = {0, 1, 2, 31, 32, 33, 63, 64, 255, 256, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
		0x3f800000, 0xbf800000, 0x3f000000, 0x40200000, 0x00000001, 0x007fffff, 0x00800000, 0x80000001, 0x7f7fffff, 0x7f800000, 0xff800000,
		0x7fc00000, 0xffc00001, 0x4f000000, 0xcf000000, 0x4f800000, 0x477fe000, 0x477ff000, 0x33800000, 0x33000000, 0x3f808000, 0x3f818000,
		0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff, 0x3ff0000000000000, 0x7ff0000000000000, 0x7ff8000000000000};
	return all[random_u32() % (sizeof all / sizeof *all)];
}

static bool is_nan(const char *kinds, u64 v) {
	char k = kinds[strlen(kinds) - 1];
	return k == 'F' ? isnan(as_float(v)) : k == 'D' && isnan(as_double(v));
}

void run_zoo(void) {
	u64 *in = malloc(3 * N * sizeof *in);
	u32 n = N;
	for (int i = 0; i < 3 * N; i++)
		in[i] = random_u32() % 3 == 0 ? edge() : random_u32() % 2 ? (u64)random_u32() << 32 | random_u32() : bits_of_float(random_float() * 100);
	Pointer din = upload(in, 3 * N * 8), out = allocate((size_t)ROWS * N * 8);
	must(launch("zoo", N / 128, 128, ARGUMENTS(&out, &din, &n)));
	u64 *got = download(out, (size_t)ROWS * N * 8);
	for (int row = 0; row < ROWS; row++)
		for (u32 i = 0; i < N; i++) {
			u64 g = got[row * N + i], w = want(row, in[i], in[N + i], in[2 * N + i]);
			bool plain = strstr(rows[row].ptx, "neg") || strstr(rows[row].ptx, "abs") || strchr(rows[row].kinds, 'D');
			if (g == w || (is_nan(rows[row].kinds, g) && is_nan(rows[row].kinds, w) && (plain || g == 0x7fffffff)))
				continue;
			printf("%s of %llx, %llx, %llx gives %llx, want %llx\n", rows[row].ptx, (unsigned long long)in[i], (unsigned long long)in[N + i],
				(unsigned long long)in[2 * N + i], (unsigned long long)g, (unsigned long long)w);
			break;
		}
	printf("%d instructions\n", ROWS);
	print_checksum("zoo", got, (size_t)ROWS * N * 8);
	release(din), release(out);
	free(in), free(got);
}
