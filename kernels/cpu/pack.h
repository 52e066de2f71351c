// The left-hand side of a product is packed in tiles of up to MR rows, each [steps][height]: one step of the
// reduction reads consecutive numbers, or pairs of them.

INLINE int64_t packed_steps(int64_t inner, int form) { return form == PAIRED ? pairs_of(inner) : inner; }

// Transposes `height` rows of x into one tile. Vectors are stored VL wide in ascending order: what one writes
// beyond its step, the next overwrites. The last ones are written exactly, since the memory after them may belong
// to another worker.
static void pack_tile(float *tile, const float *x, int64_t stride, int height, int64_t inner, int64_t padded, int form)
{
	int64_t k = 0, tail = form == PAIRED ? 2 * VL : VL; // numbers written exactly, so that the vectors of a single row stay inside
	for (; k + VL + tail <= inner; k += VL) {
		vi r[VL];
		UNROLL for (int i = 0; i < VL; i++) r[i] = i < height ? (vi)load(x + i * stride + k) : (vi){0};
		transpose(r);
		if (form != AS_IT_IS)
			UNROLL for (int i = 0; i < VL; i++) r[i] = rounded(r[i]);
		if (form == PAIRED)
			UNROLL for (int i = 0; i < VL; i += 2) store(tile + (k + i) / 2 * height, (vf)paired(r[i], r[i + 1]));
		else
			UNROLL for (int i = 0; i < VL; i++) store(tile + (k + i) * height, (vf)r[i]);
	}
	for (; k < padded; k++)
		for (int i = 0; i < height; i++) {
			float v = k < inner ? x[i * stride + k] : 0;
			if (form != AS_IT_IS)
				v = rounded1(v);
			if (form == PAIRED)
				put_half((uint32_t *)tile + k / 2 * height + i, k % 2, v);
			else
				tile[k * height + i] = v;
		}
}

// Rows of x [rows, inner]. A task is a tile.
static void pack_rows(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_pack_rows *p = args;
	(void)scratch;
	for (int64_t t = from; t < to; t++) {
		int64_t row = tile_start(p->rows, p->tiles, t);
		int height = tile_start(p->rows, p->tiles, t + 1) - row;
		pack_tile(p->packed + row * packed_steps(p->padded, p->form), p->x + row * p->stride, p->stride, height,
		          p->inner, p->padded, p->form);
	}
}

// Columns of x [inner, rows]: the left-hand side xᵀ. All but the last rows are read and written VL wide.
static void pack_cols(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_pack_cols *p = args;
	(void)scratch;
	for (int64_t t = from; t < to; t++) {
		int64_t row = tile_start(p->rows, p->tiles, t);
		int height = tile_start(p->rows, p->tiles, t + 1) - row;
		float *tile = p->packed + row * p->inner;
		const float *x = p->x + row;
		int64_t k = 0;
		for (; k < p->inner - VL; k++) store(tile + k * height, load(x + k * p->stride));
		for (; k < p->inner; k++)
			for (int i = 0; i < height; i++) tile[k * height + i] = x[k * p->stride + i];
	}
}
