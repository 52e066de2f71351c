// Loads codes and scales of files into the panels of a matrix of four bits a weight: see nf4.h.

// Loads the rows of one part of a matrix from codes and scales in the layout of files. A task is one panel, starting with that
// of the part's first row.
static void load_codes(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_load_codes *a = args;
	const uint8_t *codes = (const uint8_t *)a->codes;
	const float *scales = (const float *)a->scales;
	int64_t cols = a->m.cols, segment = a->m.segment, first = a->row / PANEL;
	(void)scratch;
	for (int64_t p = first + from; p < first + to; p++) {
		int64_t r0 = max64(p * PANEL, a->row), r1 = min64((p + 1) * PANEL, a->row + a->count);
		for (int64_t row = r0; row < r1; row++) {
			int64_t at = (row - a->row) * cols;
			int r = row - p * PANEL;
			for (int64_t k = 0; k < cols; k += segment) {
				float scale;
				memcpy(&scale, scales + (at + k) / a->block, 4);
				((float *)scales_at(&a->m, p, k))[r] = scale;
			}
			for (int64_t k = 0; k < cols; k += 2) {
				int64_t n = at + k; // even, as cols is even: both codes are in one byte
				put_codes(&a->m, p, r, k, codes[n / 2] >> 4, codes[n / 2] & 15);
			}
		}
	}
}
