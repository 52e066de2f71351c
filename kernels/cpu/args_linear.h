// Arguments of the kernels that convert matrices and multiply with them.
#include <stdint.h>

// The shape of packed weights: see matrix.h.
enum { PANEL = 32 };

// Columns of a group, the unit of compression: see compress.h.
enum { GROUP = 4 };

// Columns of a group of codes, and the fewest columns that may share a scale: see nf4.h.
enum { CODES = 32, LEAST_SEGMENT = 8 };

// The depth of one block of a right-hand side: see gemm.h.
enum { DEPTH = 192 };

// The types of a matrix, and the encodings of a file: the values of kernels.Encoding.
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
	int32_t rounds; // numbers are rounded to bf16 before they are multiplied with it
	int64_t rows, cols; // of the matrix

	// Of a compressed matrix, else NULL.
	const grpo_patch *patches;
	const int64_t *first_patch; // [panels]
	const uint8_t *bases;       // [panels]

	// Of a matrix of four bits a weight, else NULL: see nf4.h.
	const float *scales; // [panels][cols / segment][32]
	const float *values; // [16]
	int64_t segment;     // columns of one scale
	int32_t native;      // products of values and scales can be rounded to bf16 by a shortcut with the right result
} grpo_matrix;

// Compression; a task is a panel. choose_window chooses the window of each panel, then compress compresses.
typedef struct {
	grpo_matrix raw, compressed;
	uint8_t *bases;   // [panels]
	int64_t *outside; // [panels] weights outside the window
	grpo_patch *patches;
} grpo_compress;
typedef grpo_compress grpo_choose_window;

// Loads rows [row, row+count) from the bytes of a file; a task is one panel, starting with that of row.
typedef struct {
	grpo_matrix m;
	uintptr_t src; // bytes of count × cols elements, any alignment
	int32_t encoding;
	int64_t row, count;
} grpo_load_rows;

// Loads rows from codes of four bits and the scales of blocks of weights; see nf4.h.
typedef struct {
	grpo_matrix m;
	uintptr_t codes, scales;
	int64_t block;
	int64_t row, count;
} grpo_load_codes;

// Copies rows from or to a row-major buffer of floats.
typedef struct {
	grpo_matrix m;
	float *rows;
	int64_t row, count;
} grpo_pack_matrix;
typedef grpo_pack_matrix grpo_unpack_matrix;

// With a compressed matrix at most this many tiles are low: the first decompresses the matrix for the others as it goes.
enum { LOW_TILES = 4 };

// How a number of the left-hand side is converted when it is packed.
enum {
	AS_IT_IS,
	ROUNDED, // to bf16, and still a float
	PAIRED,  // to bf16, in one 32-bit lane with its successor
};

// Rows of a product, divided into tiles of nearly equal height, at most MR. `inner` numbers of each row are read;
// pack_rows writes zeros after them up to `padded`, which is even for pairs.
typedef struct {
	float *packed;
	const float *x;
	int64_t stride, rows, inner, padded;
	int64_t tiles;
	int32_t form;
} grpo_pack_rows;
typedef grpo_pack_rows grpo_pack_cols;

// The order of tiles: see tiles.h. A tile is 16 rows of 16 pairs of bf16, or of 16 sums. TILE_DEPTH inputs of the reduction and
// TILE_PANELS panels are what a task keeps in its caches.
enum { TILE = 16, TILE_INPUTS = 32, TILE_BYTES = 4 * TILE * TILE, TURN_BYTES = 2 * TILE_BYTES, TILE_DEPTH = 512, TILE_PANELS = 8 };

// How many numbers of bf16 represent a float that is not to be rounded.
enum { PIECES = 3 };

// The left-hand side of a product in the order of tiles: for each 16 rows and each 32 inputs, one tile per piece. Pairs of tiles of rows
// are interleaved, so there is room for an even number of them.
typedef struct {
	void *packed;
	const float *x;
	int64_t stride, rows, inner;
	int32_t pieces; // 1 or PIECES
	int32_t stream; // it is written around the caches
} grpo_pack_tiles;
typedef grpo_pack_tiles grpo_pack_tiles_across; // from x [inner, rows], in one piece

// The layout of a product's left-hand side: packed by pack_rows or pack_cols; or, if it is read only a few
// times, in place: rows of `inner` or columns of `rows` elements, with stride a_stride.
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
	int64_t a_stride; // in the order of tiles: how many inputs a row of a has, of which `inner` are read; 0: just those
	int64_t a_apart;  // in the order of tiles: the stride in bytes if a is rounded rows (pack_row in tiles_rows.h); 0: a is packed
	int64_t rows, inner, cols; // inner is even if b is a bf16 matrix and B_OUTPUTS, or paired
	int64_t row_tiles, block_tiles; // block_tiles of the row_tiles form one task
	int64_t block_panels;           // with as many panels: in the order of tiles; in series 0, or, only with B_ROWS and A_PACKED,
	                                // all row tiles, and neither bias nor row_scale
	int32_t rows_first;             // in the order of tiles: rows run fastest, not panels

	int32_t b_kind;
	grpo_matrix m;      // B_OUTPUTS, B_INPUTS
	int64_t m_offset;   // the first row of the matrix, a multiple of 32
	const float *b;     // B_ROWS
	int64_t b_stride;
	int64_t b_apart;    // in the order of tiles: the stride in bytes if b is rounded rows; 0: it is not

	float *out;
	int64_t out_stride;
	int64_t out_apart;      // in the order of tiles: the distance of panels of out; 0: they are adjacent
	int32_t out_across;     // only with B_ROWS, without bias and row_scale: out is transposed, [cols, rows]
	const float *bias;      // [cols] or NULL
	const float *row_scale; // [rows] or NULL
	float alpha;
	int32_t accumulate;
	int32_t stream; // in the order of tiles: out is written around the caches

	// In the order of tiles: products that are added to this one, each to its own panels, at most TILE_DEPTH deep; their sums times alpha
	// are rounded first. One in series has A_ROWS and a matrix of floats, for B_INPUTS at most half as deep; if it accumulates, it is
	// added to this one, otherwise this one to it. NULL: none.
	const struct grpo_gemm *added;
	int64_t added_count, added_panel; // the first panel to which this one is added, if it is such a product
	int32_t gradual;                  // the final additions may give subnormal numbers

	const struct grpo_gemm *then; // in the order of tiles: what the task does next, with the same rows and columns of out; or NULL
} grpo_gemm;

// In the order of tiles a task is a block of tiles of 16 rows, an even number except in the last block, times some panels.
typedef grpo_gemm grpo_tiles_gemm;

// Its scratch space: a panel at one depth, of the product and of what is added to it; and the sums of all panels.
enum { TILE_BLOCK = TILE_DEPTH * PANEL * 2 };
static inline int64_t grpo_tiles_scratch(int64_t block_tiles, int64_t block_panels)
{
	return 2 * TILE_BLOCK + block_panels * block_tiles * TILE * PANEL * 4;
}

// How many inputs share a scale in a product in integers, and for how many a panel is decoded at once, such that the result stays in
// the first-level cache.
enum { CHUNK = 64, INTEGER_DEPTH = 4 * CHUNK };

// The left-hand side of a product in integers (whole.h), in tiles like those of pack_rows: for each two inputs one pair per row, and for
// each 64 a scale.
typedef struct {
	int32_t *pairs;
	float *scales; // [rows][inner / 64]
	const float *x;
	int64_t stride, rows, inner, tiles;
	const float *values; // of the matrix
} grpo_pack_integers;

// out [rows, m.rows] = (accumulate ? out : 0) + bias + alpha · x · mᵀ, for such a left-hand side x and a matrix of four bits a weight. A
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
	int32_t dot; // the processor has dot products of pairs (AVX512_VNNI)
} grpo_integer_products;
typedef grpo_integer_products grpo_integer_product;

// Its scratch space besides the sums of a block.
enum { INTEGER_SCRATCH = INTEGER_DEPTH / 2 * PANEL * 4 };

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
