// A matrix of bf16 compressed to three quarters of its space, without loss: frame of reference with patches.
//
// Of the 16 bits of a weight, the sign and the seven of the fraction are random, but nearly all exponents of a panel
// are in a window of 16: four bits are an offset to the panel's base. The few weights outside the window are listed, and
// patched in when their group is read. Decoding of tokens reads every weight for a few rows, at the speed of memory, so a
// quarter fewer bytes take up to a quarter less time.
//
// A group is four columns of a panel, GROUP_BYTES long: each of the 32 lanes has a pair of columns 0 and 1 and one of
// columns 2 and 3. The four pairs of lanes i and 16+i are stored in lane i of three lines of 16 lanes of 32 bits. Three
// of the pairs are stored directly, but with exponents that are offsets to the panel's base. That leaves four bits of
// each half free, which hold the fourth pair: in the first line its exponents, in the second the upper four bits of the
// fractions, in the third the signs and the lower three bits.

enum { GROUP_BYTES = 3 * 64, WINDOW = 16 };
#define EXPONENTS 0x7f807f80
#define IN_WINDOW 0x07800780
#define FREE 0x78007800

// How many bytes ahead a panel is prefetched while it is decompressed.
enum { DECOMPRESS_AHEAD = 4096 };

// The end of a panel's list of patches.
#define NO_GROUP UINT32_MAX

INLINE int is_compressed(const grpo_matrix *m) { return m->patches != NULL; }

INLINE vi exponent_base(const grpo_matrix *m, int64_t panel)
{
	int32_t base = m->bases[panel] << 7;
	return (vi){0} + (base << 16 | base);
}

// Decompresses lanes lane … lane+VL−1 of a group: the first pairs of rows lane … and of rows 16+lane …, then the second pairs.
INLINE void decompress(vi pairs[4], const char *group, int lane, vi base)
{
	vi fourth = base;
	UNROLL for (int i = 0; i < 3; i++)
	{
		vi line = loadi(group + 64 * i + 4 * lane);
		pairs[i] = (line & ~FREE) + base;
		if (i == 0)
			fourth += line >> 4 & 0x07800780;
		else if (i == 1)
			fourth |= line >> 8 & 0x00780078;
		else
			fourth |= (line >> 11 & 0x00070007) | (line << 1 & (int32_t)0x80008000);
	}
	pairs[3] = fourth;
}

// The inverse, for pairs whose exponents are offsets to the base.
INLINE void write_group(char *group, int lane, const vi pairs[4])
{
	vi fourth = pairs[3];
	vi free[3] = {fourth << 4 & FREE, fourth << 8 & FREE, (fourth << 11 & 0x38003800) | (fourth >> 1 & 0x40004000)};
	UNROLL for (int i = 0; i < 3; i++) *(vi_any *)(group + 64 * i + 4 * lane) = pairs[i] | free[i];
}

// The address of column k of a panel, or of its group if the matrix consists of groups.
INLINE const char *column_at(const grpo_matrix *m, int64_t panel, int64_t k)
{
	if (m->scales)
		return panel_at(m, panel) + k / CODES * CODE_BYTES;
	if (is_compressed(m))
		return panel_at(m, panel) + k / GROUP * GROUP_BYTES;
	return panel_at(m, panel) + (m->dtype == GRPO_BF16 ? k / 2 * PAIR_BYTES : k * PANEL * 4);
}

// The patches of a panel, from a group on.
INLINE const grpo_patch *patches_from(const grpo_matrix *m, int64_t panel, int64_t group)
{
	const grpo_patch *p = m->patches + m->first_patch[panel];
	while (p->group < group) p++;
	return p;
}

// Applies a patch to its pair.
INLINE void patch_pair(uint32_t *pair, const grpo_patch *p)
{
	uint32_t bits = p->bits;
	*pair = p->column % 2 ? (*pair & 0xffff0000) | bits : (*pair & 0xffff) | bits << 16;
}

// Applies the patches of one group to the result of decompress; returns the next patch.
static __attribute__((noinline)) const grpo_patch *patch(vi pairs[4], const grpo_patch *p, int lane)
{
	for (uint32_t group = p->group; p->group == group; p++) {
		int row = p->row, i = row % (PANEL / 2) - lane, which = p->column / 2 * 2 + row / (PANEL / 2);
		if (i < 0 || i >= VL)
			continue;
		uint32_t u = pairs[which][i];
		patch_pair(&u, p);
		pairs[which][i] = u;
	}
	return p;
}

// Writes the result of decompress in the layout of an uncompressed matrix.
INLINE void store_pairs(char *block, const vi pairs[4], int lane)
{
	UNROLL for (int i = 0; i < 4; i++) *(vi_any *)(block + i / 2 * PAIR_BYTES + i % 2 * (PAIR_BYTES / 2) + 4 * lane) = pairs[i];
}

// The position in a panel that is decompressed group by group.
typedef struct {
	const char *group;
	const grpo_patch *patches; // the next one
	vi base;
	int64_t number; // of the group
} unpacking;

INLINE unpacking unpack_from(const grpo_matrix *m, int64_t panel, int64_t group)
{
	return (unpacking){panel_at(m, panel) + group * GROUP_BYTES, patches_from(m, panel, group), exponent_base(m, panel), group};
}

// Decompresses the next groups to pairs. Patches overwrite what was decompressed.
INLINE void unpack_groups(unpacking *u, char *block, int64_t count)
{
	const char *group = u->group;
	const grpo_patch *p = u->patches;
	int64_t g = u->number;
	for (int64_t end = g + count; g < end; g++, group += GROUP_BYTES, block += GROUP / 2 * PAIR_BYTES) {
		UNROLL for (int i = 0; i < GROUP_BYTES / 64; i++) __builtin_prefetch(group + DECOMPRESS_AHEAD + 64 * i, 0, 2);
		UNROLL for (int lane = 0; lane < PANEL / 2; lane += VL)
		{
			vi w[4];
			decompress(w, group, lane, u->base);
			store_pairs(block, w, lane);
		}
		for (; __builtin_expect(p->group == g, 0); p++) patch_pair((uint32_t *)(block + p->column / 2 * PAIR_BYTES) + p->row, p);
	}
	u->group = group;
	u->patches = p;
	u->number = g;
}

// Decompresses groups [from, to) of a panel to pairs.
static void decompress_pairs(char *block, const grpo_matrix *m, int64_t panel, int64_t from, int64_t to)
{
	unpacking u = unpack_from(m, panel, from);
	unpack_groups(&u, block, to - from);
}

// Decompresses columns [k0, k1) of row r of a panel.
static void decompress_row(float *out, const grpo_matrix *m, int64_t panel, int r, int64_t k0, int64_t k1)
{
	int i = r % (PANEL / 2), lane = i / VL * VL, high = r / (PANEL / 2);
	vi base = exponent_base(m, panel), w[4];
	for (int64_t k = k0; k < k1; k++) {
		if (k == k0 || k % GROUP == 0)
			decompress(w, column_at(m, panel, k), lane, base);
		uint32_t pair = w[k % GROUP / 2 * 2 + high][i - lane];
		out[k - k0] = float_of_bf16(k % 2 ? pair : pair >> 16);
	}
	for (const grpo_patch *p = patches_from(m, panel, k0 / GROUP); p->group != NO_GROUP; p++) {
		int64_t k = (int64_t)p->group * GROUP + p->column;
		if (p->row == r && k >= k0 && k < k1)
			out[k - k0] = float_of_bf16(p->bits);
	}
}

// Finds the window of exponents with the most weights of a panel, and counts those outside. A task is a panel.
static void choose_window(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_compress *a = args;
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

// One of the four pairs of a lane, with its exponents as offsets to the base. A weight outside the window becomes 0 and, unless
// it is padding, a patch.
static uint32_t rebase_pair(uint32_t base, uint32_t pair, int which, int lane, int rows, uint32_t group, grpo_patch **next)
{
	uint32_t counted = 0;
	int row = which % 2 * (PANEL / 2) + lane;
	for (int second = 0; second < 2; second++) {
		uint32_t bits = second ? pair & 0xffff : pair >> 16, e = (bits >> 7 & 255) - base;
		if (e < WINDOW)
			counted |= ((bits & 0x807f) | e << 7) << (second ? 0 : 16);
		else if (row < rows)
			*(*next)++ = (grpo_patch){.group = group, .row = row, .column = which / 2 * 2 + second, .bits = bits};
	}
	return counted;
}

INLINE void compress_group(char *group, const char *raw, vi base, int rows, uint32_t g, grpo_patch **next)
{
	for (int lane = 0; lane < PANEL / 2; lane += VL) {
		vi given[4], w[4], outside = {0};
		UNROLL for (int i = 0; i < 4; i++)
		{
			given[i] = loadi(raw + i / 2 * PAIR_BYTES + i % 2 * (PAIR_BYTES / 2) + 4 * lane);
			vi e = (given[i] & EXPONENTS) - base;
			outside |= e & ~IN_WINDOW;
			w[i] = (given[i] & ~EXPONENTS) | e;
		}
		for (int j = 0; j < VL; j++)
			if (outside[j])
				for (int i = 0; i < 4; i++) w[i][j] = rebase_pair(base[0] >> 7 & 255, given[i][j], i, lane + j, rows, g, next);
		write_group(group, lane, w);
	}
}

// Writes the groups and the patches. A task is a panel.
static void compress(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_compress *a = args;
	int64_t groups = a->raw.cols / GROUP;
	(void)scratch;
	for (int64_t p = from; p < to; p++) {
		const char *raw = panel_at(&a->raw, p);
		char *group = panel_at(&a->compressed, p);
		int rows = min64(PANEL, a->raw.rows - p * PANEL);
		grpo_patch *next = a->patches + a->compressed.first_patch[p];
		vi base = exponent_base(&a->compressed, p);
		for (int64_t g = 0; g < groups; g++, raw += GROUP / 2 * PAIR_BYTES, group += GROUP_BYTES) {
			compress_group(group, raw, base, rows, g, &next);
		}
		next->group = NO_GROUP;
	}
}
