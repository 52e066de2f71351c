// The keys and values of a batch, laid out for attention in blocks of KEYS positions.

INLINE int64_t padded(int64_t dim) { return (dim + KEYS - 1) / KEYS * KEYS; }

// transposed [dim][columns] = rows [n][dim] at a stride; columns from n on are zero.
static void transpose_rows(float *transposed, int columns, const float *rows, int64_t stride, int n, int64_t dim)
{
	for (int64_t k = 0; k < dim; k += VL)
		for (int j = 0; j < columns; j += VL) {
			vi r[VL];
			UNROLL for (int i = 0; i < VL; i++)
				r[i] = j + i < n ? (vi)take(rows + (j + i) * stride, k, dim) : (vi){0};
			transpose(r);
			UNROLL for (int i = 0; i < VL; i++)
				if (k + i < dim)
					store(transposed + (k + i) * columns + j, (vf)r[i]);
		}
}

// rows [n][dim] at a stride into to [all][padded dim]; the rest is zero.
static void pad_rows(float *to, int all, const float *rows, int64_t stride, int n, int64_t dim)
{
	int64_t wide = padded(dim);
	memset(to, 0, 4 * all * wide);
	for (int i = 0; i < n; i++) memcpy(to + i * wide, rows + i * stride, 4 * dim);
}

// Floats to whose high halves the rest is rounded, and a pair of such halves: rounded and paired with nothing cut off twice.
INLINE vi carried(vf x) { return (vi)x + 0x7fff + (((vi)x >> 16) & 1); }
INLINE vi halves(vi first, vi second) { return (first & (int32_t)0xffff0000) | (vi)((vu)second >> 16); }

// Pairs rounded to bf16, of the numbers of two vectors that follow each other and of those of two rows.
INLINE vi pairs_along(vf a, vf b)
{
	vi x = carried(a), y = carried(b);
	return halves(EVEN_LANES(x, y), ODD_LANES(x, y));
}

INLINE vi pairs_across(vf first, vf second) { return halves(carried(first), carried(second)); }

// The same of numbers of which none is subnormal, as what is computed where such numbers are flushed.
#ifdef TILES_NATIVE
// Processors that have the unit round two vectors at once, the first of a pair into its low half. A subnormal number would become 0, and
// not be rounded up.
INLINE vi narrowed(vf a, vf b)
{
	vi r;
	__asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(r) : "v"(b), "v"(a));
	return r;
}

INLINE vi computed_along(vf a, vf b)
{
	vu r = (vu)narrowed(a, b);
	return (vi)(r << 16 | r >> 16);
}

INLINE vi computed_across(vf first, vf second)
{
	vh r = (vh)narrowed(second, first);
	return (vi)SHUFFLE(r, r, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23,
	                   8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
#else
#define computed_along pairs_along
#define computed_across pairs_across
#endif

// pairs [dim/2][KEYS] = numbers 2k and 2k+1 of each row of [n][dim] at a stride, rounded to bf16; the rest is zero.
static void pair_columns(float *pairs, const float *rows, int64_t stride, int n, int64_t dim)
{
	for (int64_t k = 0; k < dim; k += 2 * VL)
		for (int j = 0; j < KEYS; j += VL) {
			vi r[VL];
			UNROLL for (int i = 0; i < VL; i++)
			{
				const float *row = rows + (j + i) * stride;
				r[i] = j + i < n ? pairs_along(take(row, k, dim), take(row, k + VL, dim)) : (vi){0};
			}
			transpose(r);
			UNROLL for (int i = 0; i < VL; i++)
				if (k + 2 * i < dim)
					store(pairs + (k / 2 + i) * KEYS + j, (vf)r[i]);
		}
}

// pairs [KEYS/2][padded dim] = rows 2j and 2j+1 of [n][dim] at a stride, rounded to bf16; the rest is zero.
static void pair_rows(float *pairs, const float *rows, int64_t stride, int n, int64_t dim)
{
	for (int j = 0; j < KEYS; j += 2, rows += 2 * stride, pairs += padded(dim))
		for (int64_t c = 0; c < padded(dim); c += VL) {
			vf first = splat(0), second = splat(0);
			if (j < n)
				first = take(rows, c, dim);
			if (j + 1 < n)
				second = take(rows + stride, c, dim);
			store(pairs + c, (vf)pairs_across(first, second));
		}
}

// Rounds n numbers, a multiple of VL.
INLINE void round_all(float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i += VL) store(x + i, (vf)rounded((vi)load(x + i)));
}

// Rows of a tile multiply what later rows have by 0: values, and for gradients keys. In the order of tiles so they do with what is behind
// them in a block. That makes 0 of all but what is no number, in bf16 also what is rounded to that: it is 0 in a block. The key that makes
// scores, which are masked before they are used, stays as it is, or is NaN beside such a value: so a row is NaN that gives it weight, and
// all of a row that reads such a value.

// The bits of the least size that is none.
INLINE int32_t no_number(int rounds) { return rounds ? 0x7f7f8000 : 0x7f800000; }

// Lanes are set where some of n numbers are none.
INLINE vi no_numbers(const float *x, int64_t n, int32_t none)
{
	vi wrong = {0};
	for (int64_t i = 0; i < n; i += VL) wrong |= ((vi)take(x, i, n) & 0x7fffffff) >= none;
	return wrong;
}

INLINE int any_lane(vi x)
{
	int32_t any = 0;
	UNROLL for (int i = 0; i < VL; i++) any |= x[i];
	return any != 0;
}

// A key as it makes scores and a value, one behind the other, of which nothing spoils what is multiplied with 0.
static void mend_value(float *copy, const float *key, const float *value, int64_t dim, int32_t none)
{
	for (int64_t k = 0; k < dim; k += VL) {
		vf v = take(value, k, dim);
		vi wrong = ((vi)v & 0x7fffffff) >= none;
		put(copy, k, dim, pick(wrong, splat(__builtin_nanf("")), take(key, k, dim)));
		put(copy + dim, k, dim, pick(wrong, splat(0), v));
	}
}

// A key as gradients of scores multiply it.
static void mend_key(float *copy, const float *key, int64_t dim, int32_t none)
{
	for (int64_t k = 0; k < dim; k += VL) {
		vf x = take(key, k, dim);
		put(copy, k, dim, pick(((vi)x & 0x7fffffff) >= none, splat(0), x));
	}
}

// A block of one key-value head.
INLINE float *packed_block(const grpo_attention *a, int64_t head, int64_t number)
{
	return a->packed + (head * a->blocks + number) * a->block_floats;
}

// The row of the batch at a position of a span's sequence, up to its end.
INLINE int64_t row_at(const grpo_attention *a, const grpo_span *s, int64_t position)
{
	while (position < s->base) s = a->spans + s->parent;
	return s->first + position - s->base;
}

// Keys as they make scores, values, and keys as gradients multiply them of one head, of rows at a stride.
typedef struct {
	const float *keys, *values, *grad_keys;
	int64_t stride;
} block_rows;

// The rows of n positions, where they are or, if they are those of several spans or some are no numbers, in a copy.
static block_rows rows_of_block(const grpo_attention_pack *a, const grpo_span *s, int64_t head, int64_t position, int n, float *copy)
{
	int64_t dim = a->dim, width = (a->q_heads + 2 * a->kv_heads) * dim;
	const float *all = a->qkv + (a->q_heads + head) * dim;
	int32_t none = no_number(a->rounds);
	if (position >= s->base) {
		const float *keys = all + row_at(a, s, position) * width, *values = keys + a->kv_heads * dim;
		vi wrong = {0};
		for (int i = 0; i < n; i++) wrong |= no_numbers(values + i * width, dim, none);
		for (int i = 0; a->both && i < n; i++) wrong |= no_numbers(keys + i * width, dim, none);
		if (!any_lane(wrong))
			return (block_rows){keys, values, keys, width};
	}
	for (int i = 0; i < n; i++) {
		const float *key = all + row_at(a, s, position + i) * width;
		mend_value(copy + 3 * i * dim, key, key + a->kv_heads * dim, dim, none);
		mend_key(copy + (3 * i + 2) * dim, key, dim, none);
	}
	return (block_rows){copy, copy + dim, copy + 2 * dim, 3 * dim};
}

// A block's n rows, as the products read them: keys transposed, and values; for gradients keys and values transposed, and keys.
static void pack_block(const grpo_attention_pack *a, float *p, block_rows r, int n)
{
	int64_t dim = a->dim, part = KEYS * dim >> (a->in_tiles != 0);
	if (a->in_tiles) {
		pair_columns(p, r.keys, r.stride, n, dim);
		if (a->both) {
			pair_columns(p + part, r.values, r.stride, n, dim);
			pair_rows(p + 2 * part, r.grad_keys, r.stride, n, dim);
		} else {
			pair_rows(p + part, r.values, r.stride, n, dim);
		}
		return;
	}
	transpose_rows(p, KEYS, r.keys, r.stride, n, dim);
	if (a->both) {
		transpose_rows(p + part, KEYS, r.values, r.stride, n, dim);
		pad_rows(p + 2 * part, KEYS, r.grad_keys, r.stride, n, dim);
	} else {
		pad_rows(p + part, KEYS, r.values, r.stride, n, dim);
	}
	if (a->rounds)
		round_all(p, a->block_floats);
}

// A task is the keys and values of one head in a span's own blocks.
static void attention_pack(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_attention_pack *a = args;
	for (int64_t task = from; task < to; task++) {
		const grpo_span *s = a->spans + task / a->kv_heads;
		int64_t head = task % a->kv_heads, end = s->base + s->length;
		for (int64_t k = 0; k < s->blocks; k++) {
			int64_t position = (s->base / KEYS + k) * KEYS;
			int n = min64(KEYS, end - position);
			block_rows r = rows_of_block(a, s, head, position, n, scratch);
			pack_block(a, packed_block(a, head, s->block + k), r, n);
		}
	}
}
