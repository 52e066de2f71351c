// Writing the finished sums of a product in the order of tiles.

// How many finished rows are written with each step; and how many rows of an addition in series are computed together.
enum { WRITTEN_ROWS = 3, SERIES_ROWS = VL == 16 ? 8 : 2 };

// Finished sums [rows][32] of a panel with `valid` columns, and sums that are added to them times alpha. They are written a few rows at
// each step of the next sums, so that the unit multiplies meanwhile.
typedef struct {
	float sums[2 * TILE * PANEL], added[2 * TILE * PANEL];
	target to;
	float alpha;
	int adds;           // another product is added
	int series, second; // that product is in series; and it is added after the sums, not before them
	int done;           // sums are written unchanged
	int bare;           // rows are whole and written around the caches, without a bias and without accumulating
	int rows, written, valid;
	int gradual;     // writing does not flush subnormal numbers, but uses the mode `before`
	uint64_t before; // the mode for subnormal numbers before the product
} finished __attribute__((aligned(64)));

// added · alpha, where subnormal numbers count as zero in any mode. No sum of a tile is subnormal, nor is its product with a factor of 1 or
// more.
INLINE vf scaled(const float *added, float alpha)
{
	vf x = load(added), product = fused(x, splat(alpha), splat(0));
	if (alpha >= 1)
		return product;
	vf larger = fused(x, splat(alpha * 0x1p64f), splat(0));
	vi sign = (vi)product & INT32_MIN;
	return blend((vi)(vmax(larger, -larger) < 0x1p-62f), (vf)sign, product);
}

INLINE vf flushed(vf x) { return blend((vi)(vmax(x, -x) < 0x1p-126f), (vf)((vi)x & INT32_MIN), x); }

// The sums and what is added to them in series, with the bits of two separate products, of which the one in tiles flushes subnormal numbers
// to zero and the other does not.
INLINE vf joined_series(const finished *f, vf sum, vf added, int column)
{
	vf alpha = splat(f->to.alpha), base = f->to.bias ? flushed(load(f->to.bias + column)) : splat(0);
	if (f->second)
		return fused(added, splat(f->alpha), flushed(fused(sum, alpha, base)));
	return fused(sum, alpha, fused(added, splat(f->alpha), base));
}

// An addition in series for some rows, each sum the same chain as in a register tile: rows of left times right [depth][32].
INLINE void add_series_rows(float *sums, const int rows, const float *left, int64_t apart, int depth, const float *right)
{
	enum { VECTORS = PANEL / VL };
	vf acc[SERIES_ROWS * VECTORS];
	UNROLL for (int i = 0; i < rows * VECTORS; i++) acc[i] = splat(0);
	for (int k = 0; k < depth; k++, right += PANEL) {
		vf b[VECTORS];
		UNROLL for (int v = 0; v < VECTORS; v++) b[v] = load(right + v * VL);
		UNROLL for (int i = 0; i < rows; i++)
		{
			vf x = splat(left[i * apart + k]);
			UNROLL for (int v = 0; v < VECTORS; v++) acc[i * VECTORS + v] = fused(b[v], x, acc[i * VECTORS + v]);
		}
	}
	UNROLL for (int i = 0; i < rows * VECTORS; i++) store(sums + i * VL, acc[i]);
}

// The same for all finished rows at once. A few rows at each step would be no faster, because multiply-adds between additions of tiles
// delay these.
static void add_series(finished *f, const float *left, int64_t apart, int depth, const float *right)
{
	int i = 0;
	if (f->gradual)
		restore_subnormals(f->before);
	for (; i + SERIES_ROWS <= f->rows; i += SERIES_ROWS)
		add_series_rows(f->added + i * PANEL, SERIES_ROWS, left + i * apart, apart, depth, right);
	for (; i < f->rows; i++) add_series_rows(f->added + i * PANEL, 1, left + i * apart, apart, depth, right);
	if (f->gradual)
		flush_subnormals();
}

INLINE vf joined(const finished *f, const target *to, int row, int column)
{
	vf sum = load(f->sums + row * PANEL + column);
	if (f->done)
		return sum;
	if (f->series)
		return joined_series(f, sum, load(f->added + row * PANEL + column), column);
	vf whole = epilogue(sum, to, 0, column);
	return f->adds ? whole + scaled(f->added + row * PANEL + column, f->alpha) : whole;
}

INLINE void write_row(const finished *f, int i)
{
	float copy[PANEL] = {0}, bias[PANEL] = {0}, *row = f->to.out + i * f->to.stride;
	target to = f->to;
	to.out = row;
	to.row_scale = to.row_scale ? to.row_scale + i : NULL;
	if (f->valid == PANEL) {
		if (to.stream && (uintptr_t)row % (4 * VL) == 0)
			UNROLL for (int v = 0; v < PANEL; v += VL) stream(row + v, joined(f, &to, i, v));
		else
			UNROLL for (int v = 0; v < PANEL; v += VL) store(row + v, joined(f, &to, i, v));
		return;
	}
	to.out = copy;
	if (to.accumulate)
		memcpy(copy, row, 4 * f->valid);
	if (to.bias)
		to.bias = memcpy(bias, to.bias, 4 * f->valid);
	UNROLL for (int v = 0; v < PANEL; v += VL) store(copy + v, joined(f, &to, i, v));
	memcpy(row, copy, 4 * f->valid);
}

// Writes bare rows up to `end`. Adding minus zero changes no sum.
INLINE void stream_rows(finished *f, int end)
{
	const vf factor = splat(f->done ? 1 : f->to.alpha), base = splat(f->done ? -0.0f : 0);
	const float alpha = f->alpha; // a copy, because the compiler must assume that a store changes f
	float *row = f->to.out + f->written * f->to.stride;
	for (; f->written < end; f->written++, row += f->to.stride)
		UNROLL for (int v = 0; v < PANEL; v += VL)
		{
			const int at = f->written * PANEL + v;
			vf sum = load(f->sums + at), whole = fused(sum, factor, base);
			if (f->series)
				whole = joined_series(f, sum, load(f->added + at), v);
			else if (f->adds)
				whole += scaled(f->added + at, alpha);
			stream(row + v, whole);
		}
}

// Writes the next few of the finished rows that have not been written.
static void write_finished(finished *f, int rows)
{
	int end = min64(f->written + rows, f->rows);
	if (f->written == end)
		return;
	if (f->gradual)
		restore_subnormals(f->before);
	if (f->bare)
		stream_rows(f, end);
	for (; f->written < end; f->written++) write_row(f, f->written);
	if (f->gradual)
		flush_subnormals();
}

// Writes finished sums [rows][32] of a panel with `valid` columns transposed: [32][rows].
static void write_across(const float *sums, int rows, int valid, const target *t)
{
	int i = 0;
	for (; i + VL <= rows; i += VL)
		for (int c = 0; c < valid; c += VL) {
			vi columns[VL];
			UNROLL for (int j = 0; j < VL; j++) columns[j] = loadi(sums + (i + j) * PANEL + c);
			transpose(columns);
			for (int j = 0; j < VL && c + j < valid; j++) {
				float *out = t->out + (c + j) * t->stride + i;
				store(out, fused((vf)columns[j], splat(t->alpha), t->accumulate ? load(out) : splat(0)));
			}
		}
	for (int c = 0; c < valid; c++)
		for (int rest = i; rest < rows; rest++) {
			float *out = t->out + c * t->stride + rest, base = t->accumulate ? *out : 0;
			*out = fused_float(sums[rest * PANEL + c], t->alpha, base);
		}
}
