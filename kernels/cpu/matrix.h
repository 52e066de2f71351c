// A matrix of weights lies in panels of 32 rows (outputs), zero padded. In panel p, rows 32p … 32p+31,
//   F32:  column k is 32 floats;
//   BF16: columns 2j and 2j+1 are 32 lanes of 32 bits, column 2j in the high half, 2j+1 (or zero) in the low
//         half. To widen is a mask or a shift; and it is what the bf16 product of pairs wants, which adds
//         the high half first: see pair.h.

enum { PAIR_BYTES = PANEL * 4 };

INLINE int64_t pairs_of(int64_t cols) { return (cols + 1) / 2; }

INLINE int64_t panel_bytes(const grpo_matrix *m)
{
	return m->dtype == GRPO_BF16 ? pairs_of(m->cols) * PAIR_BYTES : m->cols * PANEL * 4;
}

INLINE char *panel_at(const grpo_matrix *m, int64_t p) { return (char *)m->panels + p * panel_bytes(m); }

INLINE vf widen_first(vi pairs) { return (vf)(pairs & (int32_t)0xffff0000); }
INLINE vf widen_second(vi pairs) { return (vf)(pairs << 16); }

// Exactly, subnormals included.
INLINE float float_of_half(uint16_t h)
{
	uint32_t sign = (uint32_t)(h >> 15) << 31, e = (h >> 10) & 31, f = h & 1023, bits;
	float x;
	if (e == 0) {
		x = (float)f * 0x1p-24f;
		return sign ? -x : x;
	}
	bits = sign | (e == 31 ? 255 : e + 112) << 23 | f << 13;
	memcpy(&x, &bits, 4);
	return x;
}

INLINE float float_of_bf16(uint16_t h)
{
	uint32_t bits = (uint32_t)h << 16;
	float x;
	memcpy(&x, &bits, 4);
	return x;
}

// Row r, column k of a panel.
INLINE float weight_at(const grpo_matrix *m, const char *panel, int r, int64_t k)
{
	if (m->dtype != GRPO_BF16)
		return ((const float *)panel)[k * PANEL + r];
	uint32_t pair = ((const uint32_t *)panel)[k / 2 * PANEL + r];
	return float_of_bf16(k % 2 ? pair : pair >> 16);
}

INLINE float decode(const char *src, int64_t i, int encoding)
{
	uint16_t h;
	float x;
	if (encoding == ENCODED_F32) {
		memcpy(&x, src + 4 * i, 4);
		return x;
	}
	memcpy(&h, src + 2 * i, 2);
	return encoding == ENCODED_F16 ? float_of_half(h) : float_of_bf16(h);
}

// Columns go in runs that stay in the first-level cache while each row is scattered into them.
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

static void pack_matrix(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_pack_matrix *a = args;
	int64_t cols = a->m.cols, first = a->row / PANEL;
	(void)scratch;
	for (int64_t p = first + from; p < first + to; p++) {
		float *panel = (float *)panel_at(&a->m, p);
		int64_t r0 = max64(p * PANEL, a->row), r1 = min64((p + 1) * PANEL, a->row + a->count);
		for (int64_t k0 = 0; k0 < cols; k0 += SCATTER)
			for (int64_t row = r0; row < r1; row++) {
				const float *src = a->rows + (row - a->row) * cols;
				for (int64_t k = k0; k < min64(k0 + SCATTER, cols); k++)
					panel[k * PANEL + row - p * PANEL] = src[k];
			}
	}
}

static void unpack_matrix(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_unpack_matrix *a = args;
	int64_t cols = a->m.cols;
	(void)scratch;
	for (int64_t p = from; p < to; p++) {
		const char *panel = panel_at(&a->m, p);
		for (int64_t k0 = 0; k0 < cols; k0 += SCATTER)
			for (int64_t row = p * PANEL; row < min64((p + 1) * PANEL, a->m.rows); row++) {
				float *dst = a->rows + row * cols;
				int r = row - p * PANEL;
				for (int64_t k = k0; k < min64(k0 + SCATTER, cols); k++) dst[k] = weight_at(&a->m, panel, r, k);
			}
	}
}
