// The micro-kernel: a register tile of up to MR rows by NV vectors of columns, whose sums stay in registers over the
// steps of the reduction. Whatever its height, each sum is the same chain of fused multiply-adds.

enum { SUBTILES = PANEL / (NV * VL), ALL_VECTORS = PANEL / VL };

// Subtiles come one after the other, and the first has the panel read from memory. A row of its own that decompresses has all columns
// go together instead: it would wait for the memory in the first subtile, and for its own sums in the others.
INLINE int vectors_of(const int mr, const int compressed) { return compressed && mr == 1 ? ALL_VECTORS : NV; }

// The columns of vector v in subtile s of nv: neighbours; or, in halves, odd vectors are of the panel's second half.
INLINE int column_of(int s, int v, const int nv, const int halves)
{
	return halves ? (s * (nv / 2) + v / 2) * VL + (v & 1) * (PANEL / 2) : (s * nv + v) * VL;
}

// Where the columns of vector v lie among those of a step, which may be two pairs: in the order of decompress, four by four.
INLINE int vector_of(int v, int pair) { return v / 2 * 4 + pair * 2 + v % 2; }

// The epilogue: how a finished sum is written.
typedef struct {
	float *out; // 32 columns
	int64_t stride;
	const float *bias, *row_scale;
	float alpha;
	int accumulate, stream;
} target;

// What is there, and the bias.
INLINE vf base_of(const target *t, int row, int column)
{
	vf base = splat(0);
	if (t->accumulate)
		base = load(t->out + row * t->stride + column);
	if (t->row_scale)
		base = base * t->row_scale[row];
	if (t->bias) {
		vf b = load(t->bias + column);
		base = base + b;
	}
	return base;
}

INLINE vf epilogue(vf sum, const target *t, int row, int column) { return fused(sum, splat(t->alpha), base_of(t, row, column)); }

// A tile reads its right-hand side as 32 floats a step, or as 32 floats of which only the first 16 matter (a low-rank
// adapter often has no more), or as 32 pairs of bf16. These it widens, and a step is two multiply-adds of the
// chain; or it multiplies them with pairs. A group of a compressed matrix is two pairs, which it decompresses itself. Codes of four
// bits have a tile of their own: see nf4_tile.h. Its left-hand
// side is packed, so that the numbers of one step are neighbours, or spread, one row here and one there.
enum { WIDE, NARROW, WIDENED, IN_PAIRS, COMPRESSED_WIDENED, COMPRESSED_IN_PAIRS, B_FORMS, CODES_WIDENED = B_FORMS, CODES_IN_PAIRS };
enum { TOGETHER, SPREAD, A_FORMS };

// Some tiles are low: spread ones, for rows a multiple of 4096 bytes apart share one set of the first-level cache;
// and those that decompress, which takes registers.
enum { LOW_ROWS = MR < 8 ? MR : 8 };

// What a tile reads: step i finds the numbers of a at a + i·a_step, a_apart from each other (and before the next step
// those of its further columns, if it has some), and those of b at b + i·step_bytes. soon is what to prefetch
// meanwhile, one cache line for each step; of pairs two, of groups three.
typedef struct {
	const float *a;
	const char *b, *soon;
	int64_t a_step, a_apart; // in floats
	int64_t soon_step;       // in bytes; 0: there is nothing to prefetch but what soon is
	int64_t b_step;          // in bytes, of floats; where a spread tile reads floats, steps follow each other on both sides
	int steps, first, last;  // of the depths of one sum
	// Of groups: the exponents' base, the next patch, the number of the first group; and where the pairs are kept, or NULL.
	int32_t base;
	const grpo_patch *patch;
	int64_t group;
	char *keep;
	// Of codes: whose they are, and which columns.
	const grpo_matrix *codes;
	int64_t panel, k, depth;
} reading;

INLINE int step_bytes(const int b_form)
{
	return b_form == COMPRESSED_WIDENED || b_form == COMPRESSED_IN_PAIRS ? GROUP_BYTES : PANEL * 4;
}

// How many floats ahead a spread tile prefetches its rows, which are too many streams of memory for the hardware.
enum { AHEAD_IN_ROW = 96 };

// In fewer steps than this, a prefetch of what the sums are added to would come too late to help.
enum { PREFETCH_STEPS = 64 };

// Writes the sums of subtile s: to the output, or back to sums [mr][32] before the last depth.
INLINE void write_sums(const vf *acc, const int mr, const int nv, const int step, const int s, const int halves, const int last,
                       float *sums, const target *t)
{
	UNROLL for (int i = 0; i < mr; i++)
		UNROLL for (int v = 0; v < nv; v += step)
		{
			int c = column_of(s, v, nv, halves);
			if (last)
				store(t->out + i * t->stride + c, epilogue(acc[i * nv + v], t, i, c));
			else
				store(sums + i * PANEL + c, acc[i * nv + v]);
		}
}

// Number k of each row times a step's floats.
INLINE void add_floats(vf *acc, const int mr, const int nv, const int step, const int s, const int halves, const float *const *rows,
                       const int k, const char *b)
{
	vf bv[ALL_VECTORS];
	UNROLL for (int v = 0; v < nv; v += step) bv[v] = (vf)loadi(b + 4 * column_of(s, v, nv, halves));
	UNROLL for (int i = 0; i < mr; i++)
		UNROLL for (int v = 0; v < nv; v += step) acc[i * nv + v] = fused(bv[v], splat(rows[i][k]), acc[i * nv + v]);
}

// All steps of subtile s of a spread tile of floats, which go by fours: finding the numbers would take longer than multiplying them.
INLINE void add_spread(vf *acc, const int mr, const int nv, const int step, const int s, const int halves, const reading *r)
{
	enum { FOUR = 4, FLOAT_STEP = PANEL * 4, LINE = 16 };
	const float *rows[MR];
	const char *b = r->b, *soon = r->soon;
	int k = 0;
	UNROLL for (int i = 0; i < mr; i++) rows[i] = r->a + i * r->a_apart;
	for (; k + FOUR <= r->steps; k += FOUR, b += FOUR * FLOAT_STEP) {
		if (k % LINE == 0)
			UNROLL for (int i = 0; i < mr; i++) __builtin_prefetch(rows[i] + AHEAD_IN_ROW);
		if (r->soon_step)
			UNROLL for (int i = 0; i < FOUR; i++, soon += r->soon_step) __builtin_prefetch(soon);
		UNROLL for (int i = 0; i < FOUR; i++) add_floats(acc, mr, nv, step, s, halves, rows, i, b + i * FLOAT_STEP);
		UNROLL for (int i = 0; i < mr; i++) rows[i] += FOUR;
	}
	for (; k < r->steps; k++, b += FLOAT_STEP) {
		add_floats(acc, mr, nv, step, s, halves, rows, 0, b);
		UNROLL for (int i = 0; i < mr; i++) rows[i]++;
	}
}

#if VL == 8 && !defined(__clang__)
#define TWO_STEPS _Pragma("GCC unroll 2")
#else
#define TWO_STEPS
#endif

// sums [mr][32] waits between two depths.
INLINE void tile(const int mr, const int a_form, const int b_form, const reading *r, float *sums, const target *t)
{
	const int compressed = b_form == COMPRESSED_WIDENED || b_form == COMPRESSED_IN_PAIRS, pairs = b_form == WIDENED || b_form == IN_PAIRS;
	// Of 16 columns there are half as many subtiles; where there is one, every other vector, of halves.
	const int step = b_form == NARROW && SUBTILES == 1 ? 2 : 1, nv = vectors_of(mr, compressed), whole = PANEL / (nv * VL);
	const int subtiles = b_form == NARROW && whole > 1 ? whole / 2 : whole;
	const int halves = compressed || step == 2;
	const int64_t a_step = r->a_step, a_apart = a_form == SPREAD ? r->a_apart : 1;
	const int64_t a_link = a_form == SPREAD ? 1 : mr;
	const int64_t b_step = b_form == WIDE || b_form == NARROW ? r->b_step : step_bytes(b_form), soon_step = r->soon_step;
	const int steps = r->steps, last = r->last;
	for (int s = 0; s < subtiles; s++) {
		vf acc[MR * NV < ALL_VECTORS ? ALL_VECTORS : MR * NV];
		UNROLL for (int i = 0; i < mr; i++)
			UNROLL for (int v = 0; v < nv; v += step)
				acc[i * nv + v] = r->first ? splat(0) : load(sums + i * PANEL + column_of(s, v, nv, halves));
		if (last && t->accumulate && steps >= PREFETCH_STEPS)
			UNROLL for (int i = 0; i < mr; i++)
				UNROLL for (int v = 0; v < nv; v += step) __builtin_prefetch(t->out + i * t->stride + column_of(s, v, nv, halves), 1);
		if (a_form == SPREAD && !compressed && !pairs) {
			add_spread(acc, mr, nv, step, s, halves, r);
			write_sums(acc, mr, nv, step, s, halves, last, sums, t);
			continue;
		}
		const float *ak = r->a;
		const char *bk = r->b, *soon = r->soon;
		const grpo_patch *next = r->patch;
		const vi base = (vi){0} + r->base;
		char *keep = r->keep;
		TWO_STEPS
		for (int k = 0; k < steps; k++, ak += a_step, bk += b_step, soon += soon_step) {
			vi bv[2 * ALL_VECTORS];
			prefetch_lines(soon, compressed ? 3 : pairs ? 2 : 1);
			if (compressed) {
				const grpo_patch *listed = next;
				UNROLL for (int v = 0; v < nv; v += 2)
				{
					vi *four = bv + vector_of(v, 0);
					int lane = column_of(s, v, nv, halves);
					decompress(four, bk, lane, base);
					if (__builtin_expect(listed->group == r->group + k, 0))
						next = patch(four, listed, lane);
					if (keep) {
						store_pairs(keep, four, lane);
						if (v + 2 == nv)
							keep += GROUP / 2 * PAIR_BYTES;
					}
				}
			} else {
				UNROLL for (int v = 0; v < nv; v += step) bv[vector_of(v, 0)] = loadi(bk + 4 * column_of(s, v, nv, halves));
			}
			UNROLL for (int pair = 0; pair < 2; pair++)
			{
				if (pair && !compressed)
					break;
				UNROLL for (int i = 0; i < mr; i++)
					UNROLL for (int v = 0; v < nv; v += step)
					{
						vi w = bv[vector_of(v, pair)];
						if (b_form == IN_PAIRS || b_form == COMPRESSED_IN_PAIRS)
							acc[i * nv + v] = add_pairs(acc[i * nv + v], w, (vi)splat(ak[i * a_apart + pair * a_link]));
						else if (pairs || compressed)
							acc[i * nv + v] = fused(widen_first(w), splat(ak[i * a_apart + 2 * pair * a_link]), acc[i * nv + v]);
						else
							acc[i * nv + v] = fused((vf)w, splat(ak[i * a_apart]), acc[i * nv + v]);
					}
				if (b_form == WIDENED || b_form == COMPRESSED_WIDENED)
					UNROLL for (int i = 0; i < mr; i++)
						UNROLL for (int v = 0; v < nv; v += step)
							acc[i * nv + v] = fused(widen_second(bv[vector_of(v, pair)]), splat(ak[i * a_apart + (2 * pair + 1) * a_link]),
							                        acc[i * nv + v]);
			}
		}
		write_sums(acc, mr, nv, step, s, halves, last, sums, t);
	}
}

typedef void tile_function(const reading *r, float *sums, const target *t);

#define TILE_OF(a, b, mr) \
	static void tile_##a##_##b##_##mr(const reading *r, float *sums, const target *t) { tile(mr, a, b, r, sums, t); }
// Full tiles have their left-hand side packed and their right-hand side converted; low ones have every form.
#define TILE(mr)                                                                             \
	TILE_OF(TOGETHER, WIDE, mr) TILE_OF(TOGETHER, NARROW, mr) TILE_OF(TOGETHER, WIDENED, mr) \
	TILE_OF(TOGETHER, IN_PAIRS, mr)
#define LOW_TILE(mr)                                                                      \
	TILE(mr) TILE_OF(TOGETHER, COMPRESSED_WIDENED, mr) TILE_OF(TOGETHER, COMPRESSED_IN_PAIRS, mr) \
	TILE_OF(SPREAD, WIDE, mr) TILE_OF(SPREAD, NARROW, mr) TILE_OF(SPREAD, WIDENED, mr)    \
	TILE_OF(SPREAD, COMPRESSED_WIDENED, mr)
#define ENTRY(mr) \
	{{tile_TOGETHER_WIDE_##mr, tile_TOGETHER_NARROW_##mr, tile_TOGETHER_WIDENED_##mr, tile_TOGETHER_IN_PAIRS_##mr}},
#define LOW_ENTRY(mr)                                                                                              \
	{{tile_TOGETHER_WIDE_##mr, tile_TOGETHER_NARROW_##mr, tile_TOGETHER_WIDENED_##mr, tile_TOGETHER_IN_PAIRS_##mr, \
	  tile_TOGETHER_COMPRESSED_WIDENED_##mr, tile_TOGETHER_COMPRESSED_IN_PAIRS_##mr},                                      \
	 {tile_SPREAD_WIDE_##mr, tile_SPREAD_NARROW_##mr, tile_SPREAD_WIDENED_##mr, NULL, tile_SPREAD_COMPRESSED_WIDENED_##mr}},
#if MR == 14
#define LOW(F) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8)
#define HIGH(F) F(9) F(10) F(11) F(12) F(13) F(14)
#elif MR == 6
#define LOW(F) F(1) F(2) F(3) F(4) F(5) F(6)
#define HIGH(F)
#elif MR == 4
#define LOW(F) F(1) F(2) F(3) F(4)
#define HIGH(F)
#endif
LOW(LOW_TILE) HIGH(TILE)
static tile_function *const tile_functions[MR + 1][A_FORMS][B_FORMS] = {{{0}}, LOW(LOW_ENTRY) HIGH(ENTRY)};
