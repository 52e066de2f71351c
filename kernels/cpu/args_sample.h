// Arguments of the kernels of sampling.
#include <stdint.h>

// A block of a layer has its keys and values together, head by head: keys transposed [dim][KEYS],
// then values [KEYS][padded dim]. If they are bf16, two rows of these are one row of pairs, the first in the high
// halves. block_floats is the size of a block with all heads, in units of 32 bits.
typedef struct {
	float *data; // of the layer
	int64_t block_floats;
	int64_t pairs; // they are bf16
} grpo_cache_layer;

// A run of a sequence, or a tile of its queries: rows [first, first+length) at positions from position
// on; start is as in grpo_tile. table is the block table of the sequence.
typedef struct {
	int64_t first, length, position, start;
	const int32_t *table;
} grpo_run;

// count tiles, from number first on, that read their first blocks together: their sequences begin with the same `shared` blocks, and all
// their queries come after these. A single tile shares none.
typedef struct {
	int64_t first, count, shared;
} grpo_bundle;

// A task of paged_write is a (row, key-value head); of paged_attention a (bundle, key-value head).
typedef struct {
	const float *qkv;
	float *out;
	int64_t q_heads, kv_heads, dim;
	float scale, cap;
	int64_t window; // as in grpo_attention
	grpo_cache_layer cache;
	const grpo_run *runs; // paged_write: of each row; paged_attention: tiles
	const grpo_bundle *bundles;
	int64_t count; // of these
	int64_t stride; // of the tables
	int64_t in_tiles; // paged_attention: products are in the order of tiles
} grpo_paged;
typedef grpo_paged grpo_paged_write, grpo_paged_attention;

// A task is a row of logits [rows][stride], which are overwritten.
typedef struct {
	float *logits;
	int64_t stride, vocabulary;
	float cap; // of logits, or 0
	const float *inv_temp, *top_p, *min_p;
	const int32_t *top_k;
	const double *uniform;
	const uint32_t *allowed; // [rows][words], or null
	int64_t words;
	const int32_t *given; // or null
	int32_t *token;
	float *logp, *raw; // raw may be null
	int64_t tops;
	int32_t *top_token; // [rows][tops]
	float *top_logp;
} grpo_draw;

// The most tops, equal to kernels.MostTops.
enum { MOST_TOPS = 128 };

// A truncation keeps the tokens above a logit, and of those with that logit the ones up to a token.
typedef struct {
	float logit;
	int64_t token;
} grpo_cut;

// The scratch space of a truncation: counts and masses of logits by their distance from the largest, and
// the tokens of the bucket in which the cut is.
enum { BUCKETS = 1 << 12 };
typedef struct {
	int64_t count[BUCKETS];
	double mass[BUCKETS];
	grpo_cut members[];
} grpo_buckets;
