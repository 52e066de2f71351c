// The sum of the rows of a gradient, in the order of the rows.
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
