// Arguments of the kernels of the output head; see head.h.
#include <stdint.h>

// The vocabulary goes in chunks, and rows in rounds. Both are part of the numbers: never of the machine.
enum { HEAD_CHUNK = 1024, HEAD_ROWS = 1024 };

// In the order of tiles, in one piece, so many chunks are done together: workers wait for each other after the logits, after the weights
// and after the product.
enum { HEAD_TOGETHER = 2 };

// Rows of logits are this far apart, so that they do not all fall into one set of the cache.
enum { LOGIT_STRIDE = HEAD_CHUNK + 32 };

// What becomes of logits: they are bent by a cap, and scaled. Without a cap, 0, the product scales them.
typedef struct {
	float inv_temp, cap;
} grpo_logit_form;

// What one chunk says about a row: the largest logit m, Σ exp(l − m), and Σ exp(l − m)·(l − m).
typedef struct {
	float max, sum, moment;
} grpo_partial;

// x [rows, width] gathered from the rows index of a larger one.
typedef struct {
	float *out;
	const float *x;
	const int32_t *index;
	int64_t rows, width;
} grpo_gather_rows;

// Logits and partials. A task is a block of row tiles times a chunk, chunks running slowest.
typedef struct {
	grpo_gemm g; // the product; its out is unused
	const int32_t *targets;
	grpo_partial *partials; // [rows][chunks]
	float *target_logits;   // [rows]
	int64_t chunks;
	grpo_logit_form form;
} grpo_head_chunks;
typedef grpo_head_chunks grpo_tiles_head_chunks;

// The same partials from logits that are there, of one chunk, [rows][LOGIT_STRIDE], or in the order of tiles of some that follow each
// other, [panels][rows][PANEL]; and the weights exp(l − running maximum), packed as the left-hand side of a product for each chunk. A task
// is a row tile.
typedef struct {
	float *logits, *packed;
	int64_t rows, tiles;
	int64_t chunk, chunks, width; // width is that of all
	const int32_t *targets;
	grpo_partial *partials;
	float *target_logits;
	float *running; // [rows] the largest logit so far
	float *scale;   // [rows] of each chunk: by how much what was summed so far shrinks
	int32_t form;   // in which the weights are packed
	int32_t pieces; // into which they are cut, in the order of tiles
	grpo_logit_form logit_form;
} grpo_head_weights;

// Partials into results. Row i of these is row index[i] of the outputs.
typedef struct {
	int64_t rows, chunks;
	const grpo_partial *partials;
	const float *target_logits;
	const int32_t *index;
	float *logp, *entropy, *lse;
	float *inverse_sum; // [rows]
} grpo_head_combine;

// jacobian = inv_temp · (slope of the target · w[target] − mean·inverse_sum). Rows of mean are so far apart, and panels of a row.
// A task is a row.
typedef struct {
	int64_t rows, width, mean_stride, mean_apart;
	grpo_matrix w;
	const int32_t *targets, *index;
	const float *mean, *inverse_sum, *target_logits;
	grpo_logit_form form;
	float *jacobian;
} grpo_head_jacobian;

// Logits of one chunk into their gradients, in place. A task is a row.
typedef struct {
	float *logits;
	int64_t chunk, width;
	const int32_t *targets, *index;
	const float *lse, *dlogp;
	grpo_logit_form form;
} grpo_head_grad_logits;

// out [rows, width] = scale [rows] · x. A task is a row.
typedef struct {
	float *out;
	const float *x, *scale;
	int64_t width;
} grpo_scale_rows;
