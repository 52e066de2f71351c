// Warp operations, and every kind of memory, compared with the same on the host.
#include "probe.h"

#include <math.h>

enum { N = 1024 };

static u32 *numbers(u32 n) {
	u32 *x = malloc(n * 4);
	for (u32 i = 0; i < n; i++)
		x[i] = random_u32();
	return x;
}

static void compare(const char *what, Pointer out, const void *want, u32 n) {
	void *got = download(out, n * 4);
	expect_equal(what, got, want, n, 4);
	print_checksum(what, got, n * 4);
	free(got);
	release(out);
}

static void histogram(void) {
	u32 n = N, *x = numbers(N), want[64] = {0}, zero[64] = {0};
	Pointer in = upload(x, N * 4), out = upload(zero, sizeof zero);
	must(launch("histogram", 3, 256, ARGUMENTS(&out, &in, &n)));
	for (u32 i = 0; i < N; i++)
		want[x[i] & 63]++;
	compare("histogram", out, want, 64);
	release(in);
	free(x);
}

static void largest(void) {
	u32 *x = numbers(N), want[2] = {0, 0x80000000};
	Pointer in = upload(x, N * 4), out = upload(want, sizeof want);
	must(launch("largest", 4, 256, ARGUMENTS(&out, &in)));
	for (u32 i = 0; i < N; i++) {
		want[0] = x[i] > want[0] ? x[i] : want[0];
		want[1] = (s32)x[i] > (s32)want[1] ? x[i] : want[1];
	}
	compare("largest", out, want, 2);
	release(in);
	free(x);
}

// lane computes the results of lane l of a warp with numbers v.
static void lane(const u32 *v, u32 l, u32 *answer) {
	u32 add = 0, odd = 0, five = 0, seven = 0, match = 0, exclusive = 0;
	s32 least = INT32_MAX;
	for (u32 o = 0; o < 32; o++) {
		add += v[o];
		odd |= (v[o] & 1) << o;
		five |= v[o] % 64 == 5;
		seven |= v[o] % 64 == 7;
		least = (s32)v[o] < least ? (s32)v[o] : least;
		match |= (u32)((v[o] & 7) == (v[l] & 7)) << o;
		exclusive ^= v[o] & 1 ? v[o] : 0;
	}
	u32 all[] = {v[l >= 3 ? l - 3 : l], v[l + 5 < 32 ? l + 5 : l], v[v[l] & 31], v[(l ^ 9) <= (l | 7) ? l ^ 9 : l], odd,
		five | (u32)!seven << 1, add, (u32)least, match, v[l] & 1 ? exclusive : (1u << l) - 1, l + 100};
	memcpy(answer, all, sizeof all);
}

static void votes(void) {
	enum { ANSWERS = 11 };
	u32 n = N, *x = numbers(N), *want = malloc(ANSWERS * N * 4), answer[ANSWERS];
	Pointer in = upload(x, N * 4), out = allocate(ANSWERS * N * 4);
	must(launch("votes", 8, 128, ARGUMENTS(&out, &in, &n)));
	for (u32 i = 0; i < N; i++) {
		lane(x + i / 32 * 32, i % 32, answer);
		for (u32 a = 0; a < ANSWERS; a++)
			want[a * N + i] = answer[a];
	}
	compare("votes", out, want, ANSWERS * N);
	release(in);
	free(x), free(want);
}

static void memories(u32 n) {
	u32 *x = numbers(64 * 4), shared[64], want[64];
	const unsigned char *bytes = (void *)x;
	static const u32 table[] = {2, 3, 5, 7};
	for (u32 t = 0; t < 64; t++) {
		u32 local[16];
		for (u32 k = 0; k < 16; k++)
			local[k] = bytes[t] + k;
		for (u32 k = 0; k < n; k++)
			local[bytes[k] & 15] += k;
		shared[t] = local[t & 15] + (u32)(s32)(signed char)bytes[t] + (u32)(s32)((const short *)x)[t] + table[t & 3] + 11;
	}
	for (u32 t = 0; t < 64; t++) {
		const u32 *q = x + 4 * t;
		want[t] = (n & 1 ? shared : x)[63 - t] + x[2 * t] + 3 * x[2 * t + 1] + 5 * q[0] + 7 * q[1] + 11 * q[2] + 13 * q[3];
	}
	Pointer in = upload(x, 64 * 16), out = allocate(64 * 4), offset;
	size_t size;
	must(cuModuleGetGlobal_v2(&offset, &size, module, "offset"));
	must(launch("memories", 1, 64, ARGUMENTS(&out, &in, &n)));
	compare("memories", out, want, 64);
	release(in);
	free(x);
}

static void arrivals(void) {
	u32 *x = numbers(256), want[256];
	memcpy(want, x, sizeof want);
	for (u32 t = 0; t < 32; t++) {
		memset((char *)(want + 8 * t + 2) + t % 9, 0, 8 - t % 9);
		memset((char *)(want + 8 * t + 4) + t % 17, 0, 16 - t % 17);
		want[8 * t + 1] = 0;
	}
	Pointer in = upload(x, sizeof want), out = allocate(sizeof want);
	must(cuLaunchKernel(kernel("arrivals"), 1, 1, 1, 32, 1, 1, 1024, NULL, ARGUMENTS(&out, &in), NULL));
	compare("arrivals", out, want, 256);
	release(in);
	free(x);
}

// pair is what lane l gets of matrix m: two numbers of a row, or of a column.
static u32 pair(const u16 *x, u32 m, u32 l, bool transposed) {
	u32 r = l / 4, c = l % 4 * 2;
	const u16 *of = x + m * 64;
	return transposed ? (u32)of[(c + 1) * 8 + r] << 16 | of[c * 8 + r] : (u32)of[r * 8 + c + 1] << 16 | of[r * 8 + c];
}

static void tiles(void) {
	u32 *x = numbers(128), want[7 * 32];
	const u16 *h = (void *)x;
	for (u32 l = 0; l < 32; l++) {
		want[l] = pair(h, 0, l, false);
		want[32 + l] = pair(h, 0, l, true);
		want[64 + l] = pair(h, 1, l, true);
		for (u32 m = 0; m < 4; m++)
			want[96 + 32 * m + l] = pair(h, m, l, true);
	}
	Pointer in = upload(x, 512), out = allocate(sizeof want);
	must(launch("tiles", 1, 32, ARGUMENTS(&out, &in)));
	compare("tiles", out, want, 7 * 32);
	release(in);
	free(x);
}

static void small_product(void) {
	u16 a[128], b[64];
	float want[128];
	for (int n = 0; n < 128; n++)
		a[n] = bf16(random_float()), b[n % 64] = bf16(random_float());
	for (u32 l = 0; l < 32; l++)
		for (u32 e = 0; e < 4; e++) {
			u32 row = l / 4 + e / 2 * 8, column = l % 4 * 2 + e % 2;
			float s = (float)(e + 1);
			for (u32 k = 0; k < 8; k++) // lane 4g + q has numbers 2q and 2q + 1 of row g (of A, then of row g + 8) and of column g (of B)
				s = fmaf(widened(a[row / 8 * 64 + row % 8 * 8 + k]), widened(b[column * 8 + k]), s);
			want[4 * l + e] = s;
		}
	Pointer da = upload(a, sizeof a), db = upload(b, sizeof b), out = allocate(sizeof want);
	must(launch("small_product", 1, 32, ARGUMENTS(&out, &da, &db)));
	compare("small_product", out, want, 128);
	release(da), release(db);
}

void run_together(void) {
	histogram();
	largest();
	votes();
	memories(16);
	memories(17);
	arrivals();
	tiles();
	small_product();
}
