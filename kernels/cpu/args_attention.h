// Arguments of the kernels of attention.

// Keys and values are processed in blocks of KEYS positions, counted from the start of their sequence.
enum { KEYS = 32 };

// A span is rows [first, first+length) of the batch, the first of which is position base of its sequence. Its own blocks,
// numbered from block on, are those that hold its rows; the first may begin with rows of the spans that it continues.
typedef struct {
	int64_t first, length, base;
	int64_t parent; // the span with rows that it continues, or −1
	int64_t block, blocks;
	int64_t path; // index of the first entry of its path: the blocks of positions 0 to its last
	int64_t slot; // of its first own block
} grpo_span;

// A block on a path: its number, and for gradients its slot among the blocks of the spans on the current path of the walk.
typedef struct {
	int32_t number, slot;
} grpo_block;

// A tile of queries of one span and one key-value head. The queries are numbered position by position, and within a position
// head by head; the tile begins with number start.
typedef struct {
	int32_t span, start;
} grpo_tile;

typedef struct {
	// Rows of queries, keys and values, with stride row. In the order of tiles they may be rounded (pack_heads in tiles_rows.h), queries
	// after scaling: then row counts pairs.
	const float *qkv;
	int64_t row, rounded;
	int64_t q_heads, kv_heads, dim;
	float scale, cap; // of scores; cap is 0 if there is none
	int64_t window;   // very large if there is none
	int64_t rounds;   // keys and values are bf16
	int64_t in_tiles; // products are in the order of tiles, with keys and values in pairs, as in a cache
	const grpo_span *spans;
	int64_t count; // of spans
	const grpo_block *paths;
	int64_t longest; // the longest path, in blocks, rounded up
	const grpo_tile *tiles;
	int64_t tile_count;
	const int32_t *trees; // the spans with rows that begin a sequence
	int64_t slots;        // of the path with the most

	// Blocks [kv_heads][blocks], made by attention_pack: keys transposed [dim][KEYS] and values [KEYS][padded dim]; for
	// gradients (both) keys and values transposed, and keys [KEYS][padded dim].
	float *packed;
	int64_t blocks, block_floats, both;

	float *out, *lse;  // written by attention, read by attention_grad
	int64_t stream;    // out is written around the caches
	const float *dout; // attention_grad
	float *dqkv;       // attention_grad
} grpo_attention;

// The tasks of attention_pack are (span, key-value head), of attention (tile, key-value head), of attention_grad (tree,
// key-value head).
typedef grpo_attention grpo_attention_pack, grpo_attention_grad;

// Queries in a tile. In the order of tiles the gradient processes several tiles at once, and several blocks of keys.
enum { TILE_FORWARD = 32, TILE_BACKWARD = 64, QUERIES_AT_ONCE = 2 * TILE_BACKWARD, BLOCKS_AT_ONCE = 8 };

// The scratch space of the queries in the gradient, in floats: see grad_layout.
static inline int64_t grpo_grad_floats(int64_t dim, int64_t padded_dim, int in_tiles)
{
	if (!in_tiles)
		return TILE_BACKWARD * (4 + 2 * KEYS + 3 * padded_dim);
	return QUERIES_AT_ONCE * (4 + 2 * KEYS + padded_dim) + QUERIES_AT_ONCE / 2 * (4 * padded_dim + (2 + BLOCKS_AT_ONCE) * KEYS);
}

// The size of softmax_state.
enum { SOFTMAX_FLOATS = TILE_FORWARD * (3 + 16 + KEYS) };

// The scratch space of attend besides pointers, in floats. In the order of tiles it has queries and weights in bf16
// instead of queries in floats, which takes a little more if dim is small, aligned to cache lines.
static inline int64_t grpo_attend_floats(int64_t dim, int64_t padded_dim)
{
	return SOFTMAX_FLOATS + TILE_FORWARD * (dim + padded_dim) + 1024;
}
