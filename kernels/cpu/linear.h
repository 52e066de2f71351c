// What surrounds the product: packing of its left-hand side, and the sum of rows.

// Rows of x [rows, inner] into tiles, each [inner][height]. Vectors are stored VL wide in ascending order,
// so that what one writes too much the next corrects; the last ones of a tile are written exactly, since
// the next tile may belong to another worker.
static void pack_rows(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_pack_rows *p = args;
	(void)scratch;
	for (int64_t t = from; t < to; t++) {
		int64_t row = tile_start(p->rows, p->tiles, t);
		int mr = tile_start(p->rows, p->tiles, t + 1) - row;
		float *dst = p->packed + row * p->inner;
		const float *src = p->x + row * p->stride;
		int64_t k = 0;
		for (; k + 2 * VL <= p->inner; k += VL) {
			vi r[VL];
			UNROLL for (int i = 0; i < VL; i++) r[i] = i < mr ? (vi)load(src + i * p->stride + k) : (vi){0};
			transpose(r);
			UNROLL for (int i = 0; i < VL; i++) store(dst + (k + i) * mr, (vf)r[i]);
		}
		for (; k < p->inner; k++)
			for (int i = 0; i < mr; i++) dst[k * mr + i] = src[i * p->stride + k];
	}
}

// Columns of x [inner, rows] into the same tiles: the left-hand side xᵀ. All but the last rows are read and
// written VL wide, and what is too much the next corrects.
static void pack_cols(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_pack_cols *p = args;
	(void)scratch;
	for (int64_t t = from; t < to; t++) {
		int64_t row = tile_start(p->rows, p->tiles, t);
		int mr = tile_start(p->rows, p->tiles, t + 1) - row;
		float *dst = p->packed + row * p->inner;
		const float *src = p->x + row;
		int64_t k = 0;
		for (; k < p->inner - VL; k++) store(dst + k * mr, load(src + k * p->stride));
		for (; k < p->inner; k++)
			for (int i = 0; i < mr; i++) dst[k * mr + i] = src[k * p->stride + i];
	}
}

static void bias_grad(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_bias_grad *g = args;
	(void)scratch;
	for (int64_t t = from; t < to; t++) {
		int64_t c0 = t * SUM_COLUMNS, n = min64(SUM_COLUMNS, g->cols - c0);
		float sum[SUM_COLUMNS] = {0};
		for (int64_t r = 0; r < g->rows; r++)
			for (int64_t c = 0; c < n; c++) sum[c] += g->dy[r * g->stride + c0 + c];
		for (int64_t c = 0; c < n; c++) g->db[c0 + c] += sum[c];
	}
}
