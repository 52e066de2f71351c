// Arguments of the kernels of attention.

// Keys and values go in blocks of KEYS positions, counted from the start of their own sequence.
enum { KEYS = 32 };

// A span is rows [first, first+length) of the batch, the first of which stands at position base of its sequence. It has
// blocks of its own, numbered from block on: those that hold its rows, the first of which may begin with rows of what it
// goes on from.
typedef struct {
	int64_t first, length, base;
	int64_t parent; // the span with rows that it goes on from, or −1
	int64_t block, blocks;
	int64_t path; // where its path begins: the blocks of positions 0 to its last
	int64_t slot; // of the first block of its own
} grpo_span;

// A block on a path: its number, and for gradients its place among the blocks of what a tree's walk is in.
typedef struct {
	int32_t number, slot;
} grpo_block;

// Queries of one span and one key-value head are counted position by position, and within a position head by head; a
// tile begins with number start.
typedef struct {
	int32_t span, start;
} grpo_tile;

typedef struct {
	// Rows of queries, keys and values, so far apart. In the order of tiles they may be rounded (pack_heads in tiles_rows.h), queries after
	// they were scaled: then what is counted is pairs.
	const float *qkv;
	int64_t row, rounded;
	int64_t q_heads, kv_heads, dim;
	float scale, cap; // of scores; without a cap 0
	int64_t window;   // without one as long as the batch
	int64_t rounds;   // keys and values are bf16
	int64_t in_tiles; // and lie in pairs, as in a cache, for products in the order of tiles
	const grpo_span *spans;
	int64_t count; // of spans
	const grpo_block *paths;
	int64_t longest; // path, in blocks, rounded up
	const grpo_tile *tiles;
	int64_t tile_count;
	const int32_t *trees; // the spans with rows that begin a sequence
	int64_t slots;        // that the deepest path takes

	// [kv_heads][blocks] blocks that attention_pack makes: keys transposed [dim][KEYS] and values [KEYS][padded dim]; for
	// gradients (both) keys and values transposed, and keys [KEYS][padded dim].
	float *packed;
	int64_t blocks, block_floats, both;

	float *out, *lse;  // written by attention, read by attention_grad
	int64_t stream;    // out goes around the caches
	const float *dout; // attention_grad
	float *dqkv;       // attention_grad
} grpo_attention;

// The tasks of attention_pack are (span, key-value head), of attention (tile, key-value head), of attention_grad (tree,
// key-value head).
typedef grpo_attention grpo_attention_pack, grpo_attention_grad;

// Queries in a tile. In the order of tiles the gradient takes some tiles at once, and some blocks of keys.
enum { TILE_FORWARD = 32, TILE_BACKWARD = 64, QUERIES_AT_ONCE = 2 * TILE_BACKWARD, BLOCKS_AT_ONCE = 8 };

// What queries take in the gradient, in floats: see grad_layout.
static inline int64_t grpo_grad_floats(int64_t dim, int64_t padded_dim, int in_tiles)
{
	if (!in_tiles)
		return TILE_BACKWARD * (4 + 2 * KEYS + 3 * padded_dim);
	return QUERIES_AT_ONCE * (4 + 2 * KEYS + padded_dim) + QUERIES_AT_ONCE / 2 * (4 * padded_dim + (2 + BLOCKS_AT_ONCE) * KEYS);
}

// What the softmax of a tile carries: see softmax_state.
enum { SOFTMAX_FLOATS = TILE_FORWARD * (3 + 16 + KEYS) };

// What attend takes of scratch beyond pointers, in floats. For products in the order of tiles there are queries and
// weights in bf16 instead of queries, a little more where dim is small, on whole cache lines.
static inline int64_t grpo_attend_floats(int64_t dim, int64_t padded_dim)
{
	return SOFTMAX_FLOATS + TILE_FORWARD * (dim + padded_dim) + 1024;
}
