// The register tile: up to MR rows by NV vectors of columns, one fused multiply-add for each number of a step.
// Whatever its height, each sum is the same chain.

enum { SUBTILES = PANEL / (NV * VL) };

// The columns of vector v in subtile s: the low and high halves of bf16 words alternate, and the
// widened panel is walked the same way.
INLINE int column_of(int s, int v) { return (s * (NV / 2) + v / 2) * VL + (v & 1) * (PANEL / 2); }

// How a finished sum is written.
typedef struct {
	float *out; // 32 columns
	int64_t stride;
	const float *bias, *row_scale;
	float alpha;
	int accumulate;
} target;

INLINE vf finish(vf sum, const target *t, int row, int column)
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
	return sum * t->alpha + base;
}

// A tile reads its right-hand side as 32 floats a row, as words of bf16, or as 32 floats of which only the
// first 16 matter: a low-rank adapter often has no more. Its left-hand side is packed, so that the numbers of one
// step are neighbours, or spread, one row here and one there.
enum { WIDE, WORDS, NARROW, B_FORMS };
enum { TOGETHER, SPREAD, A_FORMS };

// A spread tile is lower: rows a multiple of 4096 bytes apart share one set of the nearest cache.
enum { SPREAD_ROWS = MR < 8 ? MR : 8 };

// What a tile reads: step k finds the numbers of a at a + k·a_step, a_apart from each other, and those of b at
// b + k·b_step. soon is what to ask the memory for meanwhile, one line for each step.
typedef struct {
	const float *a;
	const char *b, *soon;
	int64_t a_step, a_apart; // in floats
	int64_t b_step, soon_step; // in bytes
	int depth, first, last; // of the depths of one sum
} reading;

// In fewer steps than this, what the sums are added to would not arrive any earlier for being asked for.
enum { WORTH_ASKING = 64 };

// sums [mr][32] waits between two depths.
INLINE void tile(const int mr, const int a_form, const int b_form, const reading *r, float *sums, const target *t)
{
	const int step = b_form == NARROW ? 2 : 1; // odd vectors are columns 16 … 31
	const int64_t a_step = r->a_step, a_apart = a_form == SPREAD ? r->a_apart : 1;
	const int64_t b_step = r->b_step, soon_step = r->soon_step;
	const int depth = r->depth, last = r->last;
	for (int s = 0; s < SUBTILES; s++) {
		vf acc[MR][NV];
		UNROLL for (int i = 0; i < mr; i++)
			UNROLL for (int v = 0; v < NV; v += step)
				acc[i][v] = r->first ? splat(0) : load(sums + i * PANEL + column_of(s, v));
		if (last && t->accumulate && depth >= WORTH_ASKING)
			UNROLL for (int i = 0; i < mr; i++)
				UNROLL for (int v = 0; v < NV; v += step) __builtin_prefetch(t->out + i * t->stride + column_of(s, v), 1);
		const float *ak = r->a;
		const char *bk = r->b, *soon = r->soon;
		for (int k = 0; k < depth; k++, ak += a_step, bk += b_step, soon += soon_step) {
			vf bv[NV];
			__builtin_prefetch(soon);
			UNROLL for (int v = 0; v < NV; v += 2)
			{
				if (b_form == WORDS) {
					vi w = loadi(bk + 4 * column_of(s, v));
					bv[v] = widen_low(w);
					bv[v + 1] = widen_high(w);
				} else {
					bv[v] = load((const float *)bk + column_of(s, v));
					if (b_form == WIDE)
						bv[v + 1] = load((const float *)bk + column_of(s, v + 1));
				}
			}
			UNROLL for (int i = 0; i < mr; i++)
				UNROLL for (int v = 0; v < NV; v += step) acc[i][v] += bv[v] * ak[i * a_apart];
		}
		UNROLL for (int i = 0; i < mr; i++)
			UNROLL for (int v = 0; v < NV; v += step)
			{
				int c = column_of(s, v);
				if (last)
					store(t->out + i * t->stride + c, finish(acc[i][v], t, i, c));
				else
					store(sums + i * PANEL + c, acc[i][v]);
			}
	}
}

typedef void tile_function(const reading *r, float *sums, const target *t);

#define TILE_OF(a, b, mr) \
	static void tile_##a##_##b##_##mr(const reading *r, float *sums, const target *t) { tile(mr, a, b, r, sums, t); }
#define TILE(mr)                                                                          \
	TILE_OF(TOGETHER, WIDE, mr) TILE_OF(TOGETHER, WORDS, mr) TILE_OF(TOGETHER, NARROW, mr) \
	TILE_OF(SPREAD, WIDE, mr) TILE_OF(SPREAD, WORDS, mr) TILE_OF(SPREAD, NARROW, mr)
#define ENTRY(mr)                                                           \
	{{tile_TOGETHER_WIDE_##mr, tile_TOGETHER_WORDS_##mr, tile_TOGETHER_NARROW_##mr}, \
	 {tile_SPREAD_WIDE_##mr, tile_SPREAD_WORDS_##mr, tile_SPREAD_NARROW_##mr}},
#if MR == 14
#define HEIGHTS(F) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14)
#elif MR == 6
#define HEIGHTS(F) F(1) F(2) F(3) F(4) F(5) F(6)
#elif MR == 4
#define HEIGHTS(F) F(1) F(2) F(3) F(4)
#endif
HEIGHTS(TILE)
static tile_function *const tile_functions[MR + 1][A_FORMS][B_FORMS] = {{{0}}, HEIGHTS(ENTRY)};
