// Arguments of the kernels of memory and of products with matrices.
#include <stdint.h>

// The shape of packed weights: see matrix.h.
enum { PANEL = 32 };

// Columns of a group, the unit of compression: see compress.h.
enum { GROUP = 4 };

// Columns of a group of codes, and how few may share a scale: see nf4.h.
enum { CODES = 32, LEAST_SEGMENT = 8 };

// How deep one block of a right-hand side is: see gemm.h.
enum { DEPTH = 192 };

// What a matrix is made of, and a file: the values of kernels.Encoding.
enum { GRPO_F32, GRPO_BF16 };
enum { ENCODED_BF16 = 0, ENCODED_F16 = 1, ENCODED_F32 = 2 };

// A weight that a compressed group cannot express; see compress.h.
typedef struct {
	uint32_t group;
	uint8_t row, column; // in the panel, in the group
	uint16_t bits;
} grpo_patch;

typedef struct {
	void *panels;
	int32_t dtype;  // GRPO_F32 or GRPO_BF16
	int32_t rounds; // what is multiplied with it, to bf16
	int64_t rows, cols; // of the matrix

	// Of a compressed matrix, else NULL.
	const grpo_patch *patches;
	const int64_t *first_patch; // [panels]
	const uint8_t *bases;       // [panels]

	// Of a matrix of four bits a weight, else NULL: see nf4.h.
	const float *scales; // [panels][cols / segment][32]
	const float *values; // [16]
	int64_t segment;     // columns of one scale
	int32_t native;      // there is a quick way to round to bf16, and no value times a scale is one that it would round differently
} grpo_matrix;

// Compression; a task is a panel. The window of each panel is chosen first.
typedef struct {
	grpo_matrix raw, compressed;
	uint8_t *bases;   // [panels]
	int64_t *outside; // [panels] weights outside the window
	grpo_patch *patches;
} grpo_compress;
typedef grpo_compress grpo_choose_window;

// Rows [row, row+count) from a file's bytes; a task is one panel, starting with the one row is in.
typedef struct {
	grpo_matrix m;
	uintptr_t src; // bytes of count × cols elements, any alignment
	int32_t encoding;
	int64_t row, count;
} grpo_load_rows;

// The same from codes of four bits and the scales of blocks of weights; see nf4.h.
typedef struct {
	grpo_matrix m;
	uintptr_t codes, scales;
	int64_t block;
	int64_t row, count;
} grpo_load_codes;

// The same from or to a row-major buffer of floats.
typedef struct {
	grpo_matrix m;
	float *rows;
	int64_t row, count;
} grpo_pack_matrix;
typedef grpo_pack_matrix grpo_unpack_matrix;

// So many tiles at most are low where the matrix is compressed: the first decompresses it for the others as it goes.
enum { LOW_TILES = 4 };

// What a number of the left-hand side becomes when it is packed.
enum {
	AS_IT_IS,
	ROUNDED, // to bf16, and still a float
	PAIRED,  // to bf16, and in one 32-bit lane with its successor
};

// Rows of a product, cut into tiles of nearly equal height, at most MR. `inner` numbers of each row are read;
// pack_rows writes zeros after them up to `padded`, which is even where pairs are made.
typedef struct {
	float *packed;
	const float *x;
	int64_t stride, rows, inner, padded;
	int64_t tiles;
	int32_t form;
} grpo_pack_rows;
typedef grpo_pack_rows grpo_pack_cols;

// The order of tiles: see tiles.h. A tile is 16 rows of 16 pairs of bf16, or of 16 sums. A depth of the reduction and some
// panels are what a task has in its caches.
enum { TILE = 16, TILE_INPUTS = 32, TILE_BYTES = 4 * TILE * TILE, TURN_BYTES = 2 * TILE_BYTES, TILE_DEPTH = 512, TILE_PANELS = 8 };

// So many pieces of bf16 are a float, when it is not to be rounded.
enum { PIECES = 3 };

// The left-hand side of a product in the order of tiles: for each 16 rows and each 32 inputs, a tile of each piece. Two tiles of rows take
// turns, so there is room for an even number of them.
typedef struct {
	void *packed;
	const float *x;
	int64_t stride, rows, inner;
	int32_t pieces; // 1 or PIECES
	int32_t stream; // around the caches
} grpo_pack_tiles;
typedef grpo_pack_tiles grpo_pack_tiles_across; // the same of x [inner, rows], in one piece

// The layout of a product's left-hand side: packed by pack_rows or pack_cols; or, where it is read only
// a few times, as it is: rows of `inner` or columns of `rows` elements, a_stride apart.
enum { A_PACKED, A_ROWS, A_COLS };

// Where the right-hand side of a product comes from.
enum {
	B_OUTPUTS, // a matrix [cols, inner]: the forward product
	B_INPUTS,  // a matrix [inner, cols]: the product with its transpose
	B_ROWS,    // a row-major buffer [inner, cols]
};

// out [rows, cols] = (accumulate ? out·row_scale : 0) + bias + alpha · a [rows, inner] · b [inner, cols].
// A task is a block of row tiles times one panel of 32 columns; panels run fastest.
typedef struct grpo_gemm {
	int32_t a_kind;
	int32_t paired; // a is packed in pairs, and b, a bf16 matrix, is multiplied in pairs
	int32_t pieces; // of a, packed by pack_tiles, in the order of tiles; 0: in series
	const float *a;
	int64_t a_stride; // in the order of tiles: how many inputs a row of a has, of which `inner` are read; 0: no more
	int64_t a_apart;  // there: a is not packed, but rounded rows (pack_row in tiles_rows.h), so many bytes apart; 0: it is packed
	int64_t rows, inner, cols; // inner is even where b is a bf16 matrix and B_OUTPUTS, or paired
	int64_t row_tiles, block_tiles; // block_tiles of row_tiles go into one task
	int64_t block_panels;           // and so many panels: in the order of tiles some; in series 0, or of B_ROWS and A_PACKED
	                                // with all row tiles, without bias and row_scale
	int32_t rows_first;             // there: rows run fastest, not panels

	int32_t b_kind;
	grpo_matrix m;      // B_OUTPUTS, B_INPUTS
	int64_t m_offset;   // B_OUTPUTS: the matrix's first row; B_INPUTS: likewise; a multiple of 32
	const float *b;     // B_ROWS
	int64_t b_stride;
	int64_t b_apart;    // in the order of tiles: b is rounded rows, so many bytes apart; 0: it is not

	float *out;
	int64_t out_stride;
	int64_t out_apart;      // in the order of tiles: how far apart panels of out are; 0: they are beside each other
	int32_t out_across;     // of B_ROWS, without bias and row_scale: out is [cols, rows]
	const float *bias;      // [cols] or NULL
	const float *row_scale; // [rows] or NULL
	float alpha;
	int32_t accumulate;
	int32_t stream; // in the order of tiles: out goes to memory, around the caches

	// In the order of tiles, the products that are added to this one, each to panels of its own: of b and a as above, at most TILE_DEPTH
	// deep; their sums times alpha are rounded first. One in series is of A_ROWS and a matrix of floats, B_INPUTS at most half as deep;
	// this one is added to it, or where it accumulates it to this one. NULL: none.
	const struct grpo_gemm *added;
	int64_t added_count, added_panel; // the first panel that one is added to
	int32_t gradual;                  // what is added may leave subnormal numbers

	const struct grpo_gemm *then; // in the order of tiles: what a task does next, with the same rows and columns of out; or NULL
} grpo_gemm;

// The same in the order of tiles: a task is a block of tiles of 16 rows, an even number of them but for the last, times some panels.
typedef grpo_gemm grpo_tiles_gemm;

// What it takes of scratch: a panel at one depth, of the product and of what is added to it; and the sums of all panels.
enum { TILE_BLOCK = TILE_DEPTH * PANEL * 2 };
static inline int64_t grpo_tiles_scratch(int64_t block_tiles, int64_t block_panels)
{
	return 2 * TILE_BLOCK + block_panels * block_tiles * TILE * PANEL * 4;
}

// How many inputs share a scale in a product in whole numbers, and of how many a panel is decoded at once: what is decoded stays in the
// first-level cache.
enum { CHUNK = 64, WHOLE_DEPTH = 4 * CHUNK };

// The left-hand side of a product in whole numbers (whole.h), in tiles as pack_rows has them: for each two inputs a pair of each row. And
// for each 64 a scale.
typedef struct {
	int32_t *pairs;
	float *scales; // [rows][inner / 64]
	const float *x;
	int64_t stride, rows, inner, tiles;
	const float *values; // of the matrix
} grpo_pack_whole;

// out [rows, m.rows] = (accumulate ? out : 0) + bias + alpha · x · mᵀ, of such a left-hand side and a matrix of four bits a weight. A
// task is a block of row tiles times one panel of the matrix; panels run fastest.
typedef struct {
	grpo_matrix m;
	const int32_t *pairs;
	const float *scales;
	int64_t rows, row_tiles, block_tiles;
	float *out;
	int64_t out_stride;
	const float *bias; // [m.rows] or NULL
	float alpha;
	int32_t accumulate;
	int32_t dot; // the processor adds products of pairs in one instruction (AVX512_VNNI)
} grpo_whole_products;
typedef grpo_whole_products grpo_whole;

// What it takes of scratch beside the sums of a block.
enum { WHOLE_SCRATCH = WHOLE_DEPTH / 2 * PANEL * 4 };

// A task is one block of SUM_COLUMNS columns.
enum { SUM_COLUMNS = 256 };
typedef struct {
	float *db;
	const float *dy;
	int64_t stride, rows, cols;
} grpo_bias_grad;

// The probes. A task is `rounds` iterations of a loop of fused multiply-adds, or a read of `bytes` bytes.
typedef struct {
	int64_t rounds;
	float *sink;
} grpo_peak_fma;
typedef grpo_peak_fma grpo_peak_pairs;
typedef grpo_peak_fma grpo_peak_tiles; // sink [tasks][16][16]
typedef struct {
	const char *data;
	int64_t bytes;
	float *sink;
} grpo_peak_read;
