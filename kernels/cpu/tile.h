// The micro-kernel: a register tile of up to MR rows by NV vectors of columns, whose sums stay in registers over the
// steps of the reduction. Whatever its height, each sum is the same chain of fused multiply-adds.

enum { SUBTILES = PANEL / (NV * VL), ALL_VECTORS = PANEL / VL };

// Subtiles are processed one after the other, and the first reads the panel from memory. A tile of one row that decompresses processes
// all columns together instead: otherwise it would wait for the memory in the first subtile, and for its chains of sums in the others.
INLINE int vectors_of(const int mr, const int compressed) { return compressed && mr == 1 ? ALL_VECTORS : NV; }

// The first column of vector v of the nv in subtile s. Vectors are adjacent; or, with halves, odd ones are in the panel's second half.
INLINE int column_of(int s, int v, const int nv, const int halves)
{
	return halves ? (s * (nv / 2) + v / 2) * VL + (v & 1) * (PANEL / 2) : (s * nv + v) * VL;
}

// The index of vector v in a step, which may have two pairs: in groups of four, as decompress writes them.
INLINE int vector_of(int v, int pair) { return v / 2 * 4 + pair * 2 + v % 2; }

// The epilogue: how a finished sum is written.
typedef struct {
	float *out; // 32 columns
	int64_t stride;
	const float *bias, *row_scale;
	float alpha;
	int accumulate, stream;
} target;

// What a sum is added to: the previous output, scaled, and the bias.
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

// In a step a tile reads 32 floats of its right-hand side, or 32 floats of which only the first 16 matter (a low-rank
// adapter often has no more), or 32 pairs of bf16. It widens the pairs, so that a step is two multiply-adds of the
// chain, or multiplies them with pairs. A group of a compressed matrix is two pairs, which the tile decompresses itself. Codes of
// four bits have their own tile: see nf4_tile.h. The left-hand side is packed, with the numbers of one step adjacent (PACKED),
// or in rows with a stride (STRIDED).
enum { WIDE, NARROW, WIDENED, IN_PAIRS, COMPRESSED_WIDENED, COMPRESSED_IN_PAIRS, B_FORMS, CODES_WIDENED = B_FORMS, CODES_IN_PAIRS };
enum { PACKED, STRIDED, A_FORMS };

// Some tiles are low: those with a strided left-hand side, because rows a multiple of 4096 bytes apart share one set of the
// first-level cache; and those that decompress, which takes registers.
enum { LOW_ROWS = MR < 8 ? MR : 8 };

// What a tile reads: in step i the numbers of a at a + i·a_step, a_apart from each other (those of further columns of the
// step follow before the next step), and those of b at b + i·step_bytes. prefetch is what to prefetch meanwhile, one cache
// line per step; two for pairs, three for groups.
typedef struct {
	const float *a;
	const char *b, *prefetch;
	int64_t a_step, a_apart; // in floats
	int64_t prefetch_step;       // in bytes; 0: every step prefetches the same line
	int64_t b_step;          // in bytes, for floats; if a strided tile reads floats, steps are contiguous on both sides
	int steps, first, last;  // first and last: this is the first, or last, depth of the sums
	// For groups: the base of the exponents, the next patch, the number of the first group; and where to keep the pairs, or NULL.
	int32_t base;
	const grpo_patch *patch;
	int64_t group;
	char *keep;
	// For codes: the matrix, and which columns of it.
	const grpo_matrix *codes;
	int64_t panel, k, depth;
} tile_inputs;

INLINE int step_bytes(const int b_form)
{
	return b_form == COMPRESSED_WIDENED || b_form == COMPRESSED_IN_PAIRS ? GROUP_BYTES : PANEL * 4;
}

// How many floats ahead a strided tile prefetches its rows, which are too many streams for the hardware's prefetchers.
enum { AHEAD_IN_ROW = 96 };

// With fewer steps than this, a prefetch of the output that sums are added to would be too late to help.
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

// Adds number k of each row times the floats of a step.
INLINE void add_floats(vf *acc, const int mr, const int nv, const int step, const int s, const int halves, const float *const *rows,
                       const int k, const char *b)
{
	vf bv[ALL_VECTORS];
	UNROLL for (int v = 0; v < nv; v += step) bv[v] = (vf)loadi(b + 4 * column_of(s, v, nv, halves));
	UNROLL for (int i = 0; i < mr; i++)
		UNROLL for (int v = 0; v < nv; v += step) acc[i * nv + v] = fused(bv[v], splat(rows[i][k]), acc[i * nv + v]);
}

// All steps of subtile s of a strided tile of floats, four at a time: otherwise computing addresses would take longer than multiplying.
INLINE void add_strided(vf *acc, const int mr, const int nv, const int step, const int s, const int halves, const tile_inputs *r)
{
	enum { FOUR = 4, FLOAT_STEP = PANEL * 4, LINE = 16 };
	const float *rows[MR];
	const char *b = r->b, *prefetch = r->prefetch;
	int k = 0;
	UNROLL for (int i = 0; i < mr; i++) rows[i] = r->a + i * r->a_apart;
	for (; k + FOUR <= r->steps; k += FOUR, b += FOUR * FLOAT_STEP) {
		if (k % LINE == 0)
			UNROLL for (int i = 0; i < mr; i++) __builtin_prefetch(rows[i] + AHEAD_IN_ROW);
		if (r->prefetch_step)
			UNROLL for (int i = 0; i < FOUR; i++, prefetch += r->prefetch_step) __builtin_prefetch(prefetch);
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

// sums [mr][32] keeps the sums between two depths.
INLINE void tile(const int mr, const int a_form, const int b_form, const tile_inputs *r, float *sums, const target *t)
{
	const int compressed = b_form == COMPRESSED_WIDENED || b_form == COMPRESSED_IN_PAIRS, pairs = b_form == WIDENED || b_form == IN_PAIRS;
	// With 16 columns there are half as many subtiles, or, if there is one, every other vector, with halves.
	const int step = b_form == NARROW && SUBTILES == 1 ? 2 : 1, nv = vectors_of(mr, compressed), whole = PANEL / (nv * VL);
	const int subtiles = b_form == NARROW && whole > 1 ? whole / 2 : whole;
	const int halves = compressed || step == 2;
	const int64_t a_step = r->a_step, a_apart = a_form == STRIDED ? r->a_apart : 1;
	const int64_t a_link = a_form == STRIDED ? 1 : mr;
	const int64_t b_step = b_form == WIDE || b_form == NARROW ? r->b_step : step_bytes(b_form), prefetch_step = r->prefetch_step;
	const int steps = r->steps, last = r->last;
	for (int s = 0; s < subtiles; s++) {
		vf acc[MR * NV < ALL_VECTORS ? ALL_VECTORS : MR * NV];
		UNROLL for (int i = 0; i < mr; i++)
			UNROLL for (int v = 0; v < nv; v += step)
				acc[i * nv + v] = r->first ? splat(0) : load(sums + i * PANEL + column_of(s, v, nv, halves));
		if (last && t->accumulate && steps >= PREFETCH_STEPS)
			UNROLL for (int i = 0; i < mr; i++)
				UNROLL for (int v = 0; v < nv; v += step) __builtin_prefetch(t->out + i * t->stride + column_of(s, v, nv, halves), 1);
		if (a_form == STRIDED && !compressed && !pairs) {
			add_strided(acc, mr, nv, step, s, halves, r);
			write_sums(acc, mr, nv, step, s, halves, last, sums, t);
			continue;
		}
		const float *ak = r->a;
		const char *bk = r->b, *prefetch = r->prefetch;
		const grpo_patch *next = r->patch;
		const vi base = (vi){0} + r->base;
		char *keep = r->keep;
		TWO_STEPS
		for (int k = 0; k < steps; k++, ak += a_step, bk += b_step, prefetch += prefetch_step) {
			vi bv[2 * ALL_VECTORS];
			prefetch_lines(prefetch, compressed ? 3 : pairs ? 2 : 1);
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

typedef void tile_function(const tile_inputs *r, float *sums, const target *t);

#define TILE_OF(a, b, mr) \
	static void tile_##a##_##b##_##mr(const tile_inputs *r, float *sums, const target *t) { tile(mr, a, b, r, sums, t); }
// Full tiles have their left-hand side packed and their right-hand side converted; low ones have every form.
#define TILE(mr)                                                                             \
	TILE_OF(PACKED, WIDE, mr) TILE_OF(PACKED, NARROW, mr) TILE_OF(PACKED, WIDENED, mr) \
	TILE_OF(PACKED, IN_PAIRS, mr)
#define LOW_TILE(mr)                                                                      \
	TILE(mr) TILE_OF(PACKED, COMPRESSED_WIDENED, mr) TILE_OF(PACKED, COMPRESSED_IN_PAIRS, mr) \
	TILE_OF(STRIDED, WIDE, mr) TILE_OF(STRIDED, NARROW, mr) TILE_OF(STRIDED, WIDENED, mr)    \
	TILE_OF(STRIDED, COMPRESSED_WIDENED, mr)
#define ENTRY(mr) \
	{{tile_PACKED_WIDE_##mr, tile_PACKED_NARROW_##mr, tile_PACKED_WIDENED_##mr, tile_PACKED_IN_PAIRS_##mr}},
#define LOW_ENTRY(mr)                                                                                              \
	{{tile_PACKED_WIDE_##mr, tile_PACKED_NARROW_##mr, tile_PACKED_WIDENED_##mr, tile_PACKED_IN_PAIRS_##mr, \
	  tile_PACKED_COMPRESSED_WIDENED_##mr, tile_PACKED_COMPRESSED_IN_PAIRS_##mr},                                      \
	 {tile_STRIDED_WIDE_##mr, tile_STRIDED_NARROW_##mr, tile_STRIDED_WIDENED_##mr, NULL, tile_STRIDED_COMPRESSED_WIDENED_##mr}},
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
