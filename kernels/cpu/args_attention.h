// Arguments of the kernels of attention.

// Keys and values go in blocks of KEYS positions, counted from the start of their own sequence.
enum { KEYS = 32 };

// A sequence, or a tile of its queries: rows [first, first+length) of the batch, whose blocks are
// numbered from block on. The queries of one key-value head are counted position by position, and
// within a position head by head; a tile begins with number start.
typedef struct {
	int64_t first, length, block, start;
} grpo_span;

typedef struct {
	const float *qkv;
	int64_t q_heads, kv_heads, dim;
	int64_t rounds; // attention_pack: keys and values are rounded to bf16
	const grpo_span *spans;
	int64_t count; // of spans

	// [kv_heads][blocks] pointers to what attention_pack made: keys transposed [dim][KEYS] and
	// values [KEYS][padded dim]; for gradients also values transposed, and keys.
	float **keys_transposed, **values, **values_transposed, **keys;
	int64_t blocks;
	float *packed;

	float *out, *lse;  // written by attention, read by attention_grad
	const float *dout; // attention_grad
	float *dqkv;       // attention_grad
} grpo_attention;

// The tasks of attention_pack are (sequence of at least one block, key-value head), of attention
// (tile, key-value head), of attention_grad (sequence, key-value head).
typedef grpo_attention grpo_attention_pack, grpo_attention_grad;

// Queries in a tile.
enum { TILE_FORWARD = 32, TILE_BACKWARD = 64 };

// What the softmax of a tile carries: see softmax_state.
enum { SOFTMAX_FLOATS = TILE_FORWARD * (2 + 16 + KEYS) };
