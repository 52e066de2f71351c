// Packs the keys and values of a batch for attention, in blocks of KEYS positions.

INLINE int64_t padded(int64_t dim) { return (dim + KEYS - 1) / KEYS * KEYS; }

// transposed [dim][columns] = rows [n][dim] at a stride; columns from n on are zero.
static void transpose_rows(float *transposed, int columns, const float *rows, int64_t stride, int n, int64_t dim)
{
	for (int64_t k = 0; k < dim; k += VL)
		for (int j = 0; j < columns; j += VL) {
			vi r[VL];
			UNROLL for (int i = 0; i < VL; i++)
				r[i] = j + i < n ? (vi)load_partial(rows + (j + i) * stride, k, dim) : (vi){0};
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

// Floats whose high halves are rounded to bf16 while their low halves are arbitrary, and a pair of such high halves: this is rounding and
// pairing without clearing the low halves in between.
INLINE vi carried(vf x) { return (vi)x + 0x7fff + (((vi)x >> 16) & 1); }
INLINE vi halves(vi first, vi second) { return (first & (int32_t)0xffff0000) | (vi)((vu)second >> 16); }

// Pairs rounded to bf16: along a row, from two consecutive vectors, and across two rows.
INLINE vi pairs_along(vf a, vf b)
{
	vi x = carried(a), y = carried(b);
	return halves(EVEN_LANES(x, y), ODD_LANES(x, y));
}

INLINE vi pairs_across(vf first, vf second) { return halves(carried(first), carried(second)); }

// The same for numbers that are not subnormal, as all that are computed while such numbers are flushed.
#ifdef TILES_NATIVE
// Processors with the unit have an instruction that rounds two vectors, the first of a pair into its low half. It would turn a subnormal
// number into 0 and not round it up.
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

// Rounds n numbers to pairs of bf16.
INLINE void round_head(float *pairs, const float *x, int64_t n)
{
	for (int64_t k = 0; k < n; k += 2 * VL)
		store_partial(pairs, k / 2, n / 2, (vf)pairs_along(load_partial(x, k, n), load_partial(x, k + VL, n)));
}

// pairs [KEYS/2][padded dim] = rows 2j and 2j+1 of [n][dim/2] pairs at a stride; the rest is zero.
static void pair_rows(float *pairs, const float *rows, int64_t stride, int n, int64_t dim)
{
	for (int j = 0; j < KEYS; j += 2, rows += 2 * stride, pairs += padded(dim))
		for (int64_t c = 0; c < padded(dim); c += 2 * VL) {
			vi first = {0}, second = {0};
			if (j < n)
				first = (vi)load_partial(rows, c / 2, dim / 2);
			if (j + 1 < n)
				second = (vi)load_partial(rows + stride, c / 2, dim / 2);
			pairs_below p = put_below(first, second);
			store(pairs + c, (vf)ZIP_LOW(p.even, p.odd));
			store(pairs + c + VL, (vf)ZIP_HIGH(p.even, p.odd));
		}
}

// Rounds n numbers, a multiple of VL.
INLINE void round_all(float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i += VL) store(x + i, (vf)rounded((vi)load(x + i)));
}

// Rows of a tile multiply the values of later rows, and for gradients their keys, by 0; in the order of tiles those of all later positions
// of a block. The product is 0 unless the number is NaN or infinite, in bf16 also if it rounds to infinity. So such numbers are replaced
// by 0 in a block. The key that makes scores is kept, because scores are masked before their use; but it is NaN where the value was
// replaced, so that a row that reads such a value is NaN as a whole, as it would be otherwise.

// The form of keys and values: floats, floats that will be rounded to bf16, or pairs that have been.
typedef enum { AS_FLOATS, AS_ROUNDED, AS_PAIRS } number_form;

// A mask whose bits are set for numbers that are NaN or infinite, or will be infinite after rounding.
INLINE vi nonfinite(number_form form, vi x)
{
	enum { SIZE = 0x7fffffff, HIGH = (int32_t)0xffff0000, NONE = 0x7f800000, ROUNDED_TO_NONE = 0x7f7f8000 };
	if (form != AS_PAIRS)
		return (x & SIZE) >= (form == AS_ROUNDED ? ROUNDED_TO_NONE : NONE);
	return (((x & SIZE) >= NONE) & HIGH) | ((((vi)((vu)x << 16) & SIZE) >= NONE) & ~HIGH);
}

INLINE vi nonfinite_lanes(number_form form, const float *x, int64_t n)
{
	vi wrong = {0};
	for (int64_t i = 0; i < n; i += VL) wrong |= nonfinite(form, (vi)load_partial(x, i, n));
	return wrong;
}

INLINE int any_lane(vi x)
{
	int32_t any = 0;
	UNROLL for (int i = 0; i < VL; i++) any |= x[i];
	return any != 0;
}

// Writes three rows of n floats or pairs to copy: the key for scores, the value, and the key for gradients. Products of the latter two with
// 0 are 0. key and value may be the first two rows of copy.
static void replace_nonfinite(number_form form, float *copy, const float *key, const float *value, int64_t n)
{
	const vi none = (vi){0} + (form == AS_PAIRS ? 0x7fc07fc0 : 0x7fc00000);
	for (int64_t k = 0; k < n; k += VL) {
		vi x = (vi)load_partial(key, k, n), v = (vi)load_partial(value, k, n), wrong = nonfinite(form, v);
		store_partial(copy, k, n, blend(wrong, (vf)none, (vf)x));
		store_partial(copy + n, k, n, (vf)(v & ~wrong));
		store_partial(copy + 2 * n, k, n, (vf)(x & ~nonfinite(form, x)));
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

// The size of a head in a row of the batch, in floats or pairs.
INLINE int64_t head_in_row(const grpo_attention *a) { return a->rounded ? a->dim / 2 : a->dim; }

// Rows of keys for scores, of values, and of keys for gradients of one head, with a stride; in the order of tiles in pairs.
typedef struct {
	const float *keys, *values, *grad_keys;
	int64_t stride;
} block_rows;

// The rows of n positions: in place, or in a copy if they are of several spans, must be rounded, or have numbers that are not finite.
static block_rows rows_of_block(const grpo_attention_pack *a, const grpo_span *s, int64_t head, int64_t position, int n, float *copy)
{
	int64_t in_row = head_in_row(a), part = a->in_tiles ? a->dim / 2 : a->dim;
	const float *all = a->qkv + (a->q_heads + head) * in_row;
	const number_form form = a->in_tiles ? AS_PAIRS : a->rounds ? AS_ROUNDED : AS_FLOATS;
	if (position >= s->base && part == in_row) {
		const float *keys = all + row_at(a, s, position) * a->row, *values = keys + a->kv_heads * part;
		vi wrong = {0};
		for (int i = 0; i < n; i++) wrong |= nonfinite_lanes(form, values + i * a->row, part);
		for (int i = 0; a->both && i < n; i++) wrong |= nonfinite_lanes(form, keys + i * a->row, part);
		if (!any_lane(wrong))
			return (block_rows){keys, values, keys, a->row};
	}
	for (int i = 0; i < n; i++) {
		float *to = copy + 3 * i * part;
		const float *key = all + row_at(a, s, position + i) * a->row, *value = key + a->kv_heads * in_row;
		if (part != in_row) {
			round_head(to, key, a->dim);
			round_head(to + part, value, a->dim);
			key = to;
			value = to + part;
		}
		replace_nonfinite(form, to, key, value, part);
	}
	return (block_rows){copy, copy + part, copy + 2 * part, 3 * part};
}

// Packs the n rows of a block as the products read them: keys transposed, and values; for gradients keys and values transposed, and keys.
static void pack_block(const grpo_attention_pack *a, float *p, block_rows r, int n)
{
	int64_t dim = a->dim, part = KEYS * dim >> (a->in_tiles != 0), wide = a->in_tiles ? dim / 2 : dim;
	const float *rows = a->both ? r.grad_keys : r.values;
	float *as_rows = a->both ? p + 2 * part : p + part;
	transpose_rows(p, KEYS, r.keys, r.stride, n, wide);
	if (a->both)
		transpose_rows(p + part, KEYS, r.values, r.stride, n, wide);
	if (a->in_tiles) {
		pair_rows(as_rows, rows, r.stride, n, dim);
		return;
	}
	pad_rows(as_rows, KEYS, rows, r.stride, n, dim);
	if (a->rounds)
		round_all(p, a->block_floats);
}

// A task is the keys and values of one head in the own blocks of a span.
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
