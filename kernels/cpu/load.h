// Loading numbers into matrices and reading them.

// Reads columns [k0, k1) of a row.
INLINE void read_row(float *out, const grpo_matrix *m, int64_t row, int64_t k0, int64_t k1)
{
	int64_t panel = row / PANEL;
	int r = row % PANEL;
	if (is_compressed(m)) {
		decompress_row(out, m, panel, r, k0, k1);
	} else if (is_quantised(m)) {
		decode_row(out, m, panel, r, k0, k1);
	} else if (m->dtype == GRPO_BF16) {
		const uint32_t *pairs = (const uint32_t *)panel_at(m, panel) + r;
		for (int64_t k = k0; k < k1; k++) out[k - k0] = float_of_bf16(k % 2 ? pairs[k / 2 * PANEL] : pairs[k / 2 * PANEL] >> 16);
	} else {
		const float *column = (const float *)panel_at(m, panel) + r;
		for (int64_t k = k0; k < k1; k++) out[k - k0] = column[k * PANEL];
	}
}

// Columns are processed in runs that stay in the first-level cache while each row is scattered into them.
enum { SCATTER = 64 };

INLINE void load_pair_run(uint32_t *panel, int r, const char *src, int64_t k0, int64_t k1)
{
	int64_t k = k0;
	for (; k + 1 < k1; k += 2) {
		uint32_t next_first;
		memcpy(&next_first, src + 2 * k, 4);
		panel[k / 2 * PANEL + r] = next_first << 16 | next_first >> 16;
	}
	if (k < k1) {
		uint16_t last;
		memcpy(&last, src + 2 * k, 2);
		panel[k / 2 * PANEL + r] = (uint32_t)last << 16;
	}
}

INLINE void load_row_run(float *panel, int r, const char *src, int64_t k0, int64_t k1, int encoding)
{
	for (int64_t k = k0; k < k1; k++) panel[k * PANEL + r] = decode(src, k, encoding);
}

static void load_rows(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_load_rows *a = args;
	int64_t cols = a->m.cols, first = a->row / PANEL;
	int size = a->encoding == ENCODED_F32 ? 4 : 2;
	(void)scratch;
	for (int64_t p = first + from; p < first + to; p++) {
		char *panel = panel_at(&a->m, p);
		int64_t r0 = max64(p * PANEL, a->row), r1 = min64((p + 1) * PANEL, a->row + a->count);
		for (int64_t k0 = 0; k0 < cols; k0 += SCATTER) {
			int64_t k1 = min64(k0 + SCATTER, cols);
			for (int64_t row = r0; row < r1; row++) {
				const char *src = (const char *)a->src + (row - a->row) * cols * size;
				int r = row - p * PANEL;
				if (a->m.dtype == GRPO_BF16) {
					load_pair_run((uint32_t *)panel, r, src, k0, k1);
				} else if (a->encoding == ENCODED_F32) {
					load_row_run((float *)panel, r, src, k0, k1, ENCODED_F32);
				} else if (a->encoding == ENCODED_F16) {
					load_row_run((float *)panel, r, src, k0, k1, ENCODED_F16);
				} else {
					load_row_run((float *)panel, r, src, k0, k1, ENCODED_BF16);
				}
			}
		}
	}
}

// Packs VL rows of a panel of pairs, beginning with row r.
static void pack_pair_rows(uint32_t *panel, int r, const float *src, int64_t cols)
{
	for (int64_t k = 0; k < cols; k += 2 * VL) {
		vi pairs[VL];
		UNROLL for (int i = 0; i < VL; i++)
		{
			vi first = rounded((vi)load_partial(src + i * cols, k, cols)), second = rounded((vi)load_partial(src + i * cols, k + VL, cols));
			pairs[i] = paired(EVEN_LANES(first, second), ODD_LANES(first, second));
		}
		transpose(pairs);
		for (int i = 0; i < VL && k + 2 * i < cols; i++) *(vi_any *)(panel + (k / 2 + i) * PANEL + r) = pairs[i];
	}
}

static void pack_matrix(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_pack_matrix *a = args;
	int64_t cols = a->m.cols, first = a->row / PANEL;
	(void)scratch;
	for (int64_t p = first + from; p < first + to; p++) {
		char *panel = panel_at(&a->m, p);
		int64_t r0 = max64(p * PANEL, a->row), r1 = min64((p + 1) * PANEL, a->row + a->count);
		for (; a->m.dtype == GRPO_BF16 && r0 + VL <= r1; r0 += VL)
			pack_pair_rows((uint32_t *)panel, r0 - p * PANEL, a->rows + (r0 - a->row) * cols, cols);
		for (int64_t k0 = 0; k0 < cols; k0 += SCATTER)
			for (int64_t row = r0; row < r1; row++) {
				const float *src = a->rows + (row - a->row) * cols;
				int r = row - p * PANEL;
				for (int64_t k = k0; k < min64(k0 + SCATTER, cols); k++)
					if (a->m.dtype == GRPO_BF16)
						put_half((uint32_t *)panel + k / 2 * PANEL + r, k % 2, rounded1(src[k]));
					else
						((float *)panel)[k * PANEL + r] = src[k];
			}
	}
}

static void unpack_matrix(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_unpack_matrix *a = args;
	int64_t cols = a->m.cols;
	(void)scratch;
	for (int64_t p = from; p < to; p++)
		for (int64_t k0 = 0; k0 < cols; k0 += SCATTER)
			for (int64_t row = p * PANEL; row < min64((p + 1) * PANEL, a->m.rows); row++)
				read_row(a->rows + row * cols + k0, &a->m, row, k0, min64(k0 + SCATTER, cols));
}
