// The correct kernels, compared with the same computation on the host.
#include "probe.h"

#include <math.h>
#include <time.h>

static float *floats(size_t n) {
	float *f = malloc(n * sizeof *f);
	for (size_t i = 0; i < n; i++)
		f[i] = random_float();
	return f;
}

static void saxpy(void) {
	u32 n = 1000;
	float a = 1.5f, *x = floats(n), *y = floats(n), *want = malloc(n * sizeof *want);
	Pointer dx = upload(x, n * 4), dy = upload(y, n * 4);
	must(launch("saxpy", 4, 256, ARGUMENTS(&dy, &dx, &a, &n)));
	for (u32 i = 0; i < n; i++)
		want[i] = fmaf(a, x[i], y[i]);
	float *got = download(dy, n * 4);
	expect_equal("saxpy", got, want, n, 4);
	print_checksum("saxpy", got, n * 4);
	release(dx), release(dy);
	free(x), free(y), free(want), free(got);
}

static void reduce(void) {
	u32 n = 5000, blocks = (n + 255) / 256;
	float *x = floats(n), *want = calloc(blocks, sizeof *want);
	Pointer dx = upload(x, n * 4), sums = allocate(blocks * 4);
	must(launch("reduce", blocks, 256, ARGUMENTS(&sums, &dx, &n)));
	for (u32 b = 0; b < blocks; b++)
		for (u32 w = 0; w < 8; w++) {
			float of[32], t[32];
			for (u32 l = 0; l < 32; l++)
				of[l] = b * 256 + w * 32 + l < n ? x[b * 256 + w * 32 + l] : 0;
			for (u32 m = 16; m; m >>= 1, memcpy(of, t, sizeof of))
				for (u32 l = 0; l < 32; l++)
					t[l] = of[l] + of[l ^ m];
			want[b] += of[0];
		}
	float *got = download(sums, blocks * 4);
	expect_equal("reduce", got, want, blocks, 4);
	print_checksum("reduce", got, blocks * 4);
	release(dx), release(sums);
	free(x), free(want), free(got);
}

static void scan(void) {
	u32 n = 1024, *x = malloc(n * 4), *want = malloc(n * 4);
	for (u32 i = 0; i < n; i++)
		x[i] = random_u32(), want[i] = x[i] + (i % 256 ? want[i - 1] : 0);
	Pointer dx = upload(x, n * 4), out = allocate(n * 4);
	must(launch("scan", n / 256, 256, ARGUMENTS(&out, &dx)));
	u32 *got = download(out, n * 4);
	expect_equal("scan", got, want, n, 4);
	print_checksum("scan", got, n * 4);
	release(dx), release(out);
	free(x), free(want), free(got);
}

static void collatz(void) {
	u32 n = 2000, *want = calloc(n, 4);
	for (u32 i = 0; i < n; i++)
		for (u64 v = i + 1; v != 1; want[i]++)
			v = v & 1 ? 3 * v + 1 : v / 2;
	Pointer out = allocate(n * 4);
	must(launch("collatz", 16, 128, ARGUMENTS(&out, &n)));
	u32 *got = download(out, n * 4);
	expect_equal("collatz", got, want, n, 4);
	print_checksum("collatz", got, n * 4);
	release(out);
	free(want), free(got);
}

static u16 *halves(size_t n) {
	u16 *h = malloc(n * sizeof *h);
	for (size_t i = 0; i < n; i++)
		h[i] = bf16(random_float());
	return h;
}

// Each element is one chain of fused multiply-adds over k from zero, so the host can compute the same bits.
static double gemm(u32 rows, u32 columns, u32 depth, bool compare) {
	u16 *x = halves((size_t)rows * depth), *w = halves((size_t)columns * depth);
	Pointer dx = upload(x, (size_t)rows * depth * 2), dw = upload(w, (size_t)columns * depth * 2), out = allocate((size_t)rows * columns * 4);
	struct timespec a, b;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	must(cuLaunchKernel(kernel("gemm"), columns / 64, rows / 32, 1, 128, 1, 1, 0, NULL, ARGUMENTS(&out, &dx, &dw, &columns, &depth), NULL));
	must(cuCtxSynchronize());
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	float *got = download(out, (size_t)rows * columns * 4), *want = calloc((size_t)rows * columns, 4);
	for (u32 r = 0; compare && r < rows; r++)
		for (u32 c = 0; c < columns; c++)
			for (u32 k = 0; k < depth; k++)
				want[r * columns + c] = fmaf(widened(x[r * depth + k]), widened(w[c * depth + k]), want[r * columns + c]);
	if (compare) {
		expect_equal("gemm", got, want, (size_t)rows * columns, 4);
		print_checksum("gemm", got, (size_t)rows * columns * 4);
	}
	release(dx), release(dw), release(out);
	free(x), free(w), free(got), free(want);
	return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
}

void run_kernels(const char *name) {
	(void)name;
	saxpy();
	reduce();
	scan();
	collatz();
	gemm(96, 128, 224, true);
}

void run_speed(void) {
	u32 rows = 256, columns = 256, depth = 4096;
	double s = gemm(rows, columns, depth, false), n = (double)grpo_emu_instructions();
	printf("%.2f s, %.1f million warp instructions/s, %.2f GFLOP/s\n", s, n / s / 1e6, 2.0 * rows * columns * depth / s / 1e9);
}
