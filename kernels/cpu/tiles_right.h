// The right-hand side of a product in the order of tiles: one panel of 32 columns at some depth, as pairs in steps of 32 inputs. It is
// used in place if it has this form; otherwise it is packed step by step into a block, shortly before it is multiplied with the first rows,
// so that the processor packs one step while the tile unit multiplies with another. Columns and inputs that do not exist are zero.

enum { STEP_BYTES = TILE * PAIR_BYTES };

// How many rounded rows ahead are prefetched into the second-level cache.
enum { ROUNDED_AHEAD = 64 };

typedef struct {
	const grpo_gemm *g;
	int64_t panel, k, end; // inputs [k, end) of the panel are still to be packed
	int valid;             // columns that exist
	char *block;           // where steps are packed, as in a ring buffer:
	int64_t at, ring;      // the offset of the next step, and the size of the ring, a power of two
	unpacking compressed;
} right_packer;

// Packs the pairs of a matrix at all depths at once.
static void pack_all_steps(const grpo_matrix *m, char *to, int64_t panel, int64_t k, int64_t depth)
{
	int64_t pairs = pairs_of(depth);
	if (is_quantised(m))
		decode_codes(to, m, panel, k, depth);
	else
		memcpy(to, column_at(m, panel, k), pairs * PAIR_BYTES);
	memset(to + pairs * PAIR_BYTES, 0, (tile_steps(depth) * TILE - pairs) * PAIR_BYTES);
}

// Packs a step from a buffer, or from a matrix whose rows are the inputs.
static void pack_step_of_rows(right_packer *r, int64_t depth)
{
	const grpo_gemm *g = r->g;
	int64_t c0 = r->panel * PANEL, p = (g->m_offset + r->k) / PANEL;
	char *to = r->block + r->at;
	if (g->b_kind == B_ROWS && g->b_apart) {
		int64_t later = r->k + ROUNDED_AHEAD, over = later >= g->inner; // the next panel follows the last row
		const char *column = (const char *)g->b + 2 * c0;
		zip_rounded(to, column + r->k * g->b_apart, column + over * 2 * PANEL + (later - over * g->inner) * g->b_apart, g->b_apart, depth);
	} else if (g->b_kind == B_ROWS) {
		zip_rows(to, g->b + r->k * g->b_stride + c0, g->b_stride, depth, r->valid);
	} else {
		fetch_panel(&g->m, p + 1, c0, r->valid);
		transpose_panel((float *)to, &g->m, p, c0, r->valid, 1);
	}
}

// Packs the next step, if there is one.
INLINE void pack_next_step(right_packer *r)
{
	int64_t depth = min64(TILE_INPUTS, r->end - r->k);
	char *to = r->block + r->at;
	if (depth <= 0)
		return;
	if (r->compressed.group && depth == TILE_INPUTS) {
		unpack_groups(&r->compressed, to, TILE_INPUTS / GROUP);
	} else if (r->compressed.group) {
		unpack_groups(&r->compressed, to, depth / GROUP);
		memset(to + depth / 2 * PAIR_BYTES, 0, STEP_BYTES - depth / 2 * PAIR_BYTES);
	} else {
		pack_step_of_rows(r, depth);
	}
	r->k += TILE_INPUTS;
	r->at = (r->at + STEP_BYTES) & (r->ring - 1);
}

// The address of the right-hand side of a panel at depths [k, k+depth): in place, or in a block, as far as r has packed it.
static const char *tiles_right(right_packer *r, const grpo_gemm *g, int64_t panel, int64_t k, int64_t depth, char *block)
{
	const grpo_matrix *m = &g->m;
	int64_t p = g->m_offset / PANEL + panel;
	*r = (right_packer){.g = g, .panel = panel, .k = k, .end = k + depth, .valid = min64(g->cols - panel * PANEL, PANEL),
	                   .block = block, .ring = TILE_BLOCK};
	if (g->b_kind != B_OUTPUTS)
		return block;
	if (is_compressed(m)) {
		r->compressed = unpack_from(m, p, k / GROUP);
		return block;
	}
	if (is_plain(m) && depth % TILE_INPUTS == 0)
		return column_at(m, p, k);
	pack_all_steps(m, block, p, k, depth);
	r->k = r->end;
	return block;
}

// Memory to prefetch into the second-level cache: pieces of `bytes` bytes with stride `apart`, of which each step prefetches some
// lines.
typedef struct {
	const char *piece;
	int64_t bytes, apart, at, pieces; // pieces: how many are left
	int lines; // per step
} prefetch_plan;

// What to prefetch during a panel at one depth: the right-hand side of the next one, and left-hand sides at the next depth.
typedef struct {
	prefetch_plan right, left;
} next_prefetch;

INLINE void prefetch_next(prefetch_plan *l)
{
	for (int i = 0; i < l->lines; i++) {
		__builtin_prefetch(l->piece + l->at, 0, 2);
		l->at += 64;
		if (l->at >= l->bytes) {
			l->at = 0;
			l->piece += l->apart;
			if (--l->pieces == 0)
				l->lines = 0;
		}
	}
}

// A prefetch of pieces, spread over a number of steps.
INLINE prefetch_plan plan_prefetch(const char *piece, int64_t bytes, int64_t apart, int64_t pieces, int64_t steps)
{
	int64_t lines = (bytes + 63) / 64 * pieces;
	return (prefetch_plan){piece, bytes, apart, 0, pieces, (lines + steps - 1) / steps};
}

// The prefetch of the right-hand side of a panel at depths [k, k+TILE_DEPTH), if there is one, spread over a number of steps.
static prefetch_plan right_ahead(const grpo_gemm *g, int64_t panel, int64_t k, int64_t steps)
{
	const grpo_matrix *m = &g->m;
	int64_t column = panel * PANEL, end = min64(k + TILE_DEPTH, g->inner);
	if (column >= g->cols || k >= g->inner)
		return (prefetch_plan){NULL};
	if (g->b_kind == B_ROWS && g->b_apart)
		return plan_prefetch((const char *)g->b + k * g->b_apart + 2 * column, 2 * PANEL, g->b_apart, end - k, steps);
	if (g->b_kind == B_ROWS)
		return plan_prefetch((const char *)(g->b + k * g->b_stride + column), 4 * PANEL, 4 * g->b_stride, end - k, steps);
	int64_t p = (g->m_offset + (g->b_kind == B_OUTPUTS ? column : k)) / PANEL, from = column, to = min64(column + PANEL, g->cols), panels = 1;
	if (g->b_kind == B_OUTPUTS)
		from = k, to = end;
	else
		panels = (end - k + PANEL - 1) / PANEL;
	const char *there = column_at(m, p, from);
	return plan_prefetch(there, column_at(m, p, to) - there, panel_bytes(m), panels, steps);
}
