// Blocks of a product in the order of tiles: rows and panels that share the caches, and the products that are added to it.

// A block of tiles of rows times some panels; out is the address of its first element.
typedef struct {
	const grpo_gemm *g;
	int64_t row0, row1, panel0, panel1;
	float *out;
	char *block, *added; // space for packing a right-hand side: that of the product, and that of what is added
	float *kept; // [panels][rows in whole tiles][32] sums between two depths
	tile_file file;
	finished pending;
} tile_block;

INLINE int64_t left_row_bytes(const grpo_gemm *g) { return left_tile_bytes(g->a_stride ? g->a_stride : g->inner, g->pieces); }

// What is added to one panel of a product: another product, and its right-hand side.
typedef struct {
	const grpo_gemm *g; // NULL: nothing
	const char *right;
} addition;

static addition added_to(const tile_block *b, int64_t panel)
{
	for (int64_t i = 0; i < b->g->added_count; i++) {
		const grpo_gemm *a = b->g->added + i;
		int64_t p = panel - a->added_panel;
		if (p < 0 || p * PANEL >= a->cols)
			continue;
		if (a->pieces == 0) {
			tile_inputs r;
			right_side(&r, a, WIDE, p, 0, a->inner, (float *)b->added);
			return (addition){a, r.b};
		}
		right_packer packer;
		const char *right = tiles_right(&packer, a, p, 0, a->inner, b->added);
		while (packer.k < packer.end && right == b->added) pack_next_step(&packer);
		return (addition){a, right};
	}
	return (addition){NULL};
}

// The left-hand side of a product at a row and a depth.
INLINE const char *left_of(const grpo_gemm *g, int64_t row, int64_t k)
{
	if (g->a_apart)
		return (const char *)g->a + row * g->a_apart + 2 * k;
	return packed_tile((void *)g->a, row / TILE, left_row_bytes(g)) + k / TILE_INPUTS * g->pieces * TURN_BYTES;
}

INLINE left_layout layout_of_left(const grpo_gemm *g) { return g->a_apart ? LEFT_ROWS(g->a_apart) : LEFT_PACKED; }

// The prefetch of the left-hand side of `tiles` tiles at one depth, spread over `steps` steps.
static prefetch_plan left_ahead(const grpo_gemm *g, int64_t row, int64_t k, int64_t tiles, int64_t steps)
{
	const char *there = left_of(g, row, k);
	int64_t depth = min64(TILE_DEPTH, g->inner - k);
	if (g->a_apart)
		return plan_prefetch(there, 2 * depth, g->a_apart, min64(tiles * TILE, g->rows - row), steps);
	return plan_prefetch(there, 2 * left_tile_bytes(depth, g->pieces), 2 * left_row_bytes(g), (tiles + 1) / 2, steps);
}

// Whether what is added can be computed as one more step of the same sums, with the same bits: if it is a single step, its sum from zero
// is what that step adds, and nothing comes between. (If both are negative and underflow, the result is −0 this way and 0 otherwise.)
static int is_extra_step(const grpo_gemm *g, const grpo_gemm *a)
{
	int one = a->alpha == 1 && a->pieces == 1 && tile_steps(a->inner) == 1;
	return one && g->alpha == 1 && !g->accumulate && !g->gradual && !g->bias && !g->row_scale;
}

// Hands over finished rows of a panel, with what is added to them, for writing.
static void finish(tile_block *b, int64_t panel, int64_t row, int rows, const addition *more)
{
	const grpo_gemm *g = b->g, *a = more->g;
	finished *f = &b->pending;
	f->to = (target){
		.out = out_of(g, b->out, row - b->row0, panel - b->panel0),
		.stride = g->out_stride,
		.bias = g->bias ? g->bias + panel * PANEL : NULL,
		.row_scale = g->row_scale ? g->row_scale + row : NULL,
		.alpha = g->alpha,
		.accumulate = g->accumulate,
		.stream = g->stream,
	};
	f->done = a && is_extra_step(g, a);
	f->adds = a && !f->done;
	f->valid = min64(g->cols - panel * PANEL, PANEL);
	if (g->out_across) {
		write_across(f->sums, rows, f->valid, &f->to);
		return;
	}
	f->series = f->adds && a->pieces == 0;
	f->rows = rows;
	f->written = 0;
	if (f->series) {
		f->second = a->accumulate;
		add_series(f, a->a + row * a->a_stride, a->a_stride, a->inner, (const float *)more->right);
	}
	if (f->adds)
		f->alpha = a->alpha;
	const int aligned = ((uintptr_t)f->to.out | 4 * f->to.stride) % (4 * VL) == 0;
	f->bare = g->stream && !g->accumulate && !g->bias && f->valid == PANEL && aligned;
}

// A thin product is bound by reading its larger factor: rows with few panels, or the columns of a buffer with few rows. There is no
// software prefetch for it: the hardware's is as quick, and prefetching makes a step longer.
enum { THIN_PANELS = 2 };

INLINE int is_thin(const tile_block *b)
{
	const int few_rows = b->g->b_kind == B_ROWS && b->row1 - b->row0 <= 4 * TILE;
	return b->g->pieces == 1 && (few_rows || b->panel1 - b->panel0 <= THIN_PANELS);
}

// Makes `then`, a copy of t, the sum of the next two tiles of rows. The right-hand side is packed by then.
static void go_below(tile_sum *then, const tile_sum *t, const grpo_gemm *g, const grpo_gemm *extra_step, next_prefetch *next)
{
	then->from = t->from + 2 * TILE * PANEL;
	then->to = t->to + (t->pending ? 0 : 2 * TILE * PANEL);
	then->left = t->left + (left_of(g, 2 * TILE, 0) - left_of(g, 0, 0));
	then->last_left = extra_step ? t->last_left + 2 * left_row_bytes(extra_step) : NULL;
	then->packer = NULL;
	then->next = next;
	then->then = NULL;
}

// The separate sums of what is added to the first rows of a product, in one depth.
static tile_sum sums_beside(tile_block *b, const addition *more)
{
	const grpo_gemm *a = more->g;
	return (tile_sum){.to = b->pending.added, .row = 4 * PANEL, .left = left_of(a, b->row0, 0), .in = LEFT_PACKED, .right = more->right,
	                  .right_row = PAIR_BYTES, .steps = tile_steps(a->inner), .pieces = a->pieces, .fresh = 1};
}

// All rows of a block times one panel at one depth. What comes next is prefetched meanwhile.
static void add_panel(tile_block *b, int64_t panel, int64_t k, next_prefetch *next)
{
	const grpo_gemm *g = b->g;
	int64_t depth = min64(TILE_DEPTH, g->inner - k), height = (b->row1 - b->row0 + TILE - 1) / TILE * TILE;
	int last = k + depth == g->inner;
	right_packer packer;
	const char *right = tiles_right(&packer, g, panel, k, depth, b->block);
	addition more = last ? added_to(b, panel) : (addition){NULL};
	const int makes = right == b->block && packer.k < packer.end, extra_step = more.g && is_extra_step(g, more.g);
	const int beside = more.g && !extra_step && more.g->pieces > 0; // what is added has its own sums
	if (b->row1 - b->row0 <= 2 * TILE)
		packer.ring = FEW_STEPS * STEP_BYTES;
	float *sums = b->kept + (panel - b->panel0) * height * PANEL;
	tile_sum t[2] = {{
		.from = sums, .to = last ? b->pending.sums : sums, .row = 4 * PANEL, .left = left_of(g, b->row0, k), .in = layout_of_left(g),
		.right = right, .right_row = PAIR_BYTES, .steps = tile_steps(depth), .pieces = g->pieces, .fresh = k == 0,
		.packer = makes ? &packer : NULL, .next = makes ? NULL : next, .pending = last ? &b->pending : NULL,
		.last_left = extra_step ? left_of(more.g, b->row0, 0) : NULL, .last_right = more.right}};
	if (is_thin(b) && !extra_step)
		t[0].thin = g->cols - panel * PANEL > TILE ? 2 : 1;
	t[1] = t[0];
	tile_sum low = beside ? sums_beside(b, &more) : (tile_sum){.steps = 0};
	for (int64_t row = b->row0, i = 0; row < b->row1; row += 2 * TILE, i++) {
		tile_sum *now = t + i % 2, *then = t + (i + 1) % 2;
		int64_t rows = min64(b->row1 - row, 2 * TILE);
		go_below(then, now, g, extra_step ? more.g : NULL, next);
		then->begun = !now->thin && row + 3 * TILE < b->row1;
		low.begun = !now->thin && rows > TILE;
		low.then = then->begun ? then : NULL;
		now->then = beside ? &low : low.then;
		add_tiles(&b->file, rows, now);
		if (beside) {
			add_tiles(&b->file, rows, &low);
			low.left += 2 * left_row_bytes(more.g);
		}
		if (last)
			finish(b, panel, row, rows, &more);
	}
}

// All panels at one depth. Many rows are processed depth by depth, so that their left-hand sides stay in the second-level cache.
static void add_depth(tile_block *b, int64_t k)
{
	const grpo_gemm *g = b->g;
	int64_t panels = b->panel1 - b->panel0, tiles = (b->row1 - b->row0 + TILE - 1) / TILE, deeper = g->inner - k - TILE_DEPTH;
	int64_t steps = (tile_steps(min64(TILE_DEPTH, g->inner - k)) - 1) * ((tiles - 1) / 2);
	next_prefetch next = {{NULL}};
	if (deeper > 0 && panels * steps > 0 && !is_thin(b))
		next.left = left_ahead(g, b->row0, k + TILE_DEPTH, tiles, panels * steps);
	for (int64_t p = b->panel0; p < b->panel1; p++) {
		int over = p + 1 == b->panel1, ends = over && deeper <= 0;
		if (steps > 0)
			next.right = right_ahead(g, over && (!ends || g->rows_first) ? b->panel0 : p + 1, ends ? 0 : k + over * TILE_DEPTH, steps);
		add_panel(b, p, k, &next);
	}
}

// Few rows with few pieces process each panel at all depths, in the order of memory: there are too few steps to spread the prefetch of
// another panel over them.
enum { FEW_PIECES = 8 };

INLINE int end_to_end(const grpo_gemm *g, int64_t tiles) { return tiles <= 2 || (is_compressed(&g->m) && tiles * g->pieces <= FEW_PIECES); }

// Tiles of rows [tile0, tile1) times panels [panel0, panel1).
static void tiles_block(const grpo_gemm *g, char *scratch, int64_t tile0, int64_t tile1, int64_t panel0, int64_t panel1, float *out)
{
	tile_block b = {.g = g, .row0 = tile0 * TILE, .row1 = min64(tile1 * TILE, g->rows), .panel0 = panel0, .panel1 = panel1, .out = out,
	                .block = scratch, .added = scratch + TILE_BLOCK, .kept = (float *)(scratch + 2 * TILE_BLOCK)};
	int64_t depths = (g->inner + TILE_DEPTH - 1) / TILE_DEPTH;
	// The unit ignores the mode for subnormal numbers, so flushing can stay off all the time, except when vectors decode weights of four bits.
	const int leaves = g->gradual && UNIT_FLUSHES && !is_quantised(&g->m);
	const uint64_t before = leaves ? 0 : flush_subnormals();
	b.pending.gradual = g->gradual && !leaves;
	b.pending.before = before;
	tile_begin();
	if (end_to_end(g, tile1 - tile0)) {
		for (int64_t i = 0; i < (panel1 - panel0) * depths; i++) add_panel(&b, panel0 + i / depths, i % depths * TILE_DEPTH, NULL);
	} else {
		for (int64_t k = 0; k < g->inner; k += TILE_DEPTH) add_depth(&b, k);
	}
	write_finished(&b.pending, 2 * TILE);
	tile_end();
	if (!leaves)
		restore_subnormals(before);
}

// A task is a block of tiles of rows times some panels. Panels run fastest if the rows stay in the second-level cache, otherwise rows:
// then workers read the same panels at the same time.
static void tiles_gemm(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_gemm *g = args;
	int64_t panels = (g->cols + PANEL - 1) / PANEL, groups = (panels + g->block_panels - 1) / g->block_panels;
	int64_t blocks = (g->row_tiles + g->block_tiles - 1) / g->block_tiles;
	for (int64_t t = from; t < to; t++) {
		int64_t block = g->rows_first ? t % blocks : t / groups, group = g->rows_first ? t / blocks : t % groups;
		int64_t tile0 = block * g->block_tiles, panel0 = group * g->block_panels;
		int64_t tile1 = min64(tile0 + g->block_tiles, g->row_tiles), panel1 = min64(panel0 + g->block_panels, panels);
		for (const grpo_gemm *p = g; p; p = p->then)
			tiles_block(p, scratch, tile0, tile1, panel0, panel1, out_of(p, p->out, tile0 * TILE, panel0));
	}
	streams_end();
}
