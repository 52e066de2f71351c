// A settled matrix of bf16 in three quarters of its space, without loss.
//
// Of the 16 bits of a weight, the sign and the seven of the fraction are random, but nearly all exponents of a panel
// lie in a window of 16: four bits say which. The few weights outside the window are listed, and patched in when their
// group is read. Decoding reads every weight for a single row, so what is not read is time won.
//
// A group is four columns of a panel, GROUP_BYTES long: three lines of 16 lanes of 32 bits. Lane i has rows i and 16+i of
// the panel; a half has a column, the high one the first of a pair, as in pairs.
//   line 0: of columns 0 and 1, sign and fraction: of row i where they are in a bf16, of row 16+i with the bytes
//           of the half exchanged;
//   line 1: the same of columns 2 and 3;
//   line 2: in each half, from low to high, how far the exponents lie above the panel's base: row i and row 16+i of the
//           first pair, and of the second.

enum { GROUP_BYTES = 3 * 64, WINDOW = 16 };
#define SIGN_FRACTION ((int32_t)0x807f807f)
#define EXPONENTS 0x7f807f80
#define IN_WINDOW 0x07800780

// How many bytes ahead of its reading a panel is asked for.
enum { EXPAND_AHEAD = 4096 };

// The end of a panel's list of patches.
#define NO_GROUP UINT32_MAX

INLINE int is_compact(const grpo_matrix *m) { return m->patches != NULL; }

INLINE vi exchanged(vi x) { return (x << 8 & (int32_t)0xff00ff00) | (x >> 8 & 0x00ff00ff); }

INLINE vi exponent_base(const grpo_matrix *m, int64_t panel)
{
	int32_t base = m->bases[panel] << 7;
	return (vi){0} + (base << 16 | base);
}

// Lanes lane … lane+VL−1 of a group as pairs: the first pair of rows lane … and of rows 16+lane …, then the second.
INLINE void expand(vi pairs[4], const char *group, int lane, vi base)
{
	vi first = loadi(group + 4 * lane), second = loadi(group + 64 + 4 * lane), e = loadi(group + 128 + 4 * lane);
	pairs[0] = (first & SIGN_FRACTION) | ((e << 7 & IN_WINDOW) + base);
	pairs[1] = (exchanged(first) & SIGN_FRACTION) | ((e << 3 & IN_WINDOW) + base);
	pairs[2] = (second & SIGN_FRACTION) | ((e >> 1 & IN_WINDOW) + base);
	pairs[3] = (exchanged(second) & SIGN_FRACTION) | ((e >> 5 & IN_WINDOW) + base);
}

// Where column k of a panel lies, of a settled matrix the group that begins with it.
INLINE const char *column_at(const grpo_matrix *m, int64_t panel, int64_t k)
{
	if (is_compact(m))
		return panel_at(m, panel) + k / GROUP * GROUP_BYTES;
	return panel_at(m, panel) + (m->dtype == GRPO_BF16 ? k / 2 * PAIR_BYTES : k * PANEL * 4);
}

// The panel's patches from a group on.
INLINE const grpo_patch *patches_from(const grpo_matrix *m, int64_t panel, int64_t group)
{
	const grpo_patch *p = m->patches + m->first_patch[panel];
	while (p->group < group) p++;
	return p;
}

// Puts the patches of one group into what expand gave; gives the next patch.
static __attribute__((noinline)) const grpo_patch *patch(vi pairs[4], const grpo_patch *p, int lane)
{
	for (uint32_t group = p->group; p->group == group; p++) {
		int row = p->row, i = row % (PANEL / 2) - lane, which = p->column / 2 * 2 + row / (PANEL / 2);
		if (i < 0 || i >= VL)
			continue;
		uint32_t u = pairs[which][i], bits = p->bits;
		pairs[which][i] = p->column % 2 ? (u & 0xffff0000) | bits : (u & 0xffff) | bits << 16;
	}
	return p;
}

// Groups [from, to) of a panel as pairs, as an unsettled matrix has them.
static void expand_pairs(char *block, const grpo_matrix *m, int64_t panel, int64_t from, int64_t to)
{
	const char *group = panel_at(m, panel) + from * GROUP_BYTES;
	const grpo_patch *p = patches_from(m, panel, from);
	vi base = exponent_base(m, panel);
	for (int64_t g = from; g < to; g++, group += GROUP_BYTES, block += GROUP / 2 * PAIR_BYTES) {
		const grpo_patch *next = p;
		__builtin_prefetch(group + EXPAND_AHEAD);
		__builtin_prefetch(group + EXPAND_AHEAD + 64);
		__builtin_prefetch(group + EXPAND_AHEAD + 128);
		UNROLL for (int lane = 0; lane < PANEL / 2; lane += VL)
		{
			vi w[4];
			expand(w, group, lane, base);
			if (__builtin_expect(p->group == g, 0))
				next = patch(w, p, lane);
			UNROLL for (int i = 0; i < 4; i++)
				*(vi_any *)(block + i / 2 * PAIR_BYTES + i % 2 * (PAIR_BYTES / 2) + 4 * lane) = w[i];
		}
		p = next;
	}
}

// Columns [k0, k1) of row r of a panel.
static void expand_row(float *out, const grpo_matrix *m, int64_t panel, int r, int64_t k0, int64_t k1)
{
	const char *groups = panel_at(m, panel);
	int lane = r % (PANEL / 2), high = r / (PANEL / 2);
	for (int64_t k = k0; k < k1; k++) {
		int column = k % GROUP, half = column % 2 ? 0 : 16;
		uint32_t line[3];
		for (int i = 0; i < 3; i++) memcpy(line + i, groups + k / GROUP * GROUP_BYTES + 64 * i + 4 * lane, 4);
		uint32_t s = line[column / 2] >> half & 0xffff;
		if (high)
			s = (s << 8 | s >> 8) & 0xffff;
		uint32_t e = m->bases[panel] + (line[2] >> (half + 8 * (column / 2) + 4 * high) & 15);
		out[k - k0] = float_of_bf16((s & 0x807f) | e << 7);
	}
	for (const grpo_patch *p = patches_from(m, panel, k0 / GROUP); p->group != NO_GROUP; p++) {
		int64_t k = (int64_t)p->group * GROUP + p->column;
		if (p->row == r && k >= k0 && k < k1)
			out[k - k0] = float_of_bf16(p->bits);
	}
}

// Which window of exponents has the most weights of a panel, and how many are outside. A task is a panel.
static void choose_window(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_settle *a = args;
	int64_t pairs = pairs_of(a->raw.cols);
	(void)scratch;
	for (int64_t p = from; p < to; p++) {
		const uint32_t *w = (const uint32_t *)panel_at(&a->raw, p);
		int rows = min64(PANEL, a->raw.rows - p * PANEL);
		uint32_t first[256] = {0}, second[256] = {0};
		for (int64_t j = 0; j < pairs; j++)
			for (int r = 0; r < rows; r++) {
				uint32_t x = w[j * PANEL + r];
				first[x >> 23 & 255]++;
				second[x >> 7 & 255]++;
			}
		int64_t inside = 0, best = -1;
		for (int e = 0; e < 256; e++) {
			inside += first[e] + second[e];
			if (e >= WINDOW)
				inside -= first[e - WINDOW] + second[e - WINDOW];
			if (e >= WINDOW - 1 && inside > best) {
				best = inside;
				a->bases[p] = e - (WINDOW - 1);
			}
		}
		a->outside[p] = rows * 2 * pairs - best;
	}
}

// One weight into its group; and, if it is outside the window and means something, into the list.
static void settle_one(uint32_t *lines, int column, int row, uint16_t bits, int base, int counts, uint32_t g, grpo_patch **next)
{
	int lane = row % (PANEL / 2), high = row / (PANEL / 2), half = column % 2 ? 0 : 16;
	int e = (bits >> 7 & 255) - base;
	uint32_t s = bits & 0x807f;
	if (e < 0 || e >= WINDOW) {
		if (counts)
			*(*next)++ = (grpo_patch){.group = g, .row = row, .column = column, .bits = bits};
		e = 0;
	}
	if (high)
		s = (s << 8 | s >> 8) & 0xffff;
	lines[16 * (column / 2) + lane] |= s << half;
	lines[32 + lane] |= (uint32_t)e << (half + 8 * (column / 2) + 4 * high);
}

static void settle_group(char *group, const char *raw, int base, int rows, uint32_t g, grpo_patch **next)
{
	uint32_t lines[GROUP_BYTES / 4] = {0};
	for (int column = 0; column < GROUP; column++)
		for (int r = 0; r < PANEL; r++) {
			uint32_t pair;
			memcpy(&pair, raw + column / 2 * PAIR_BYTES + 4 * r, 4);
			settle_one(lines, column, r, column % 2 ? pair : pair >> 16, base, r < rows, g, next);
		}
	memcpy(group, lines, GROUP_BYTES);
}

// The same for lanes whose exponents are all in the window; gives 0 and leaves the group to settle_group if they are not.
INLINE int settle_lanes(char *group, const char *raw, int lane, vi base)
{
	vi w[4], e[4], outside = {0};
	UNROLL for (int i = 0; i < 4; i++)
	{
		w[i] = loadi(raw + i / 2 * PAIR_BYTES + i % 2 * (PAIR_BYTES / 2) + 4 * lane);
		e[i] = (w[i] & EXPONENTS) - base;
		outside |= e[i] & ~IN_WINDOW;
		w[i] &= SIGN_FRACTION;
	}
	for (int i = 0; i < VL; i++)
		if (outside[i])
			return 0;
	*(vi_any *)(group + 4 * lane) = w[0] | exchanged(w[1]);
	*(vi_any *)(group + 64 + 4 * lane) = w[2] | exchanged(w[3]);
	*(vi_any *)(group + 128 + 4 * lane) = e[0] >> 7 | e[1] >> 3 | e[2] << 1 | e[3] << 5;
	return 1;
}

// Writes the groups and the patches. A task is a panel.
static void settle(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_settle *a = args;
	int64_t groups = a->raw.cols / GROUP;
	(void)scratch;
	for (int64_t p = from; p < to; p++) {
		const char *raw = panel_at(&a->raw, p);
		char *group = panel_at(&a->settled, p);
		int rows = min64(PANEL, a->raw.rows - p * PANEL);
		grpo_patch *next = a->patches + a->settled.first_patch[p];
		vi base = exponent_base(&a->settled, p);
		for (int64_t g = 0; g < groups; g++, raw += GROUP / 2 * PAIR_BYTES, group += GROUP_BYTES) {
			int inside = 1;
			for (int lane = 0; lane < PANEL / 2 && inside; lane += VL) inside = settle_lanes(group, raw, lane, base);
			if (!inside)
				settle_group(group, raw, a->bases[p], rows, g, &next);
		}
		next->group = NO_GROUP;
	}
}
