// Arguments of the kernels of the output head; see head.h.
#include <stdint.h>

// The vocabulary is processed in chunks, and rows in rounds. Both sizes affect the bits of results, so they never depend on the machine.
enum { HEAD_CHUNK = 1024, HEAD_ROWS = 1024 };

// How many chunks are processed together in the order of tiles, if numbers have one piece: workers wait for each other after the
// logits, after the weights and after the product.
enum { HEAD_TOGETHER = 2 };

// The stride of rows of logits, such that they do not all map to one set of the cache.
enum { LOGIT_STRIDE = HEAD_CHUNK + 32 };

// How logits are transformed: capped by tanh, and scaled. If cap is 0 there is no cap, and the product scales them.
typedef struct {
	float inv_temp, cap;
} grpo_logit_form;

// The partial result of a row and a chunk: the largest logit m, Σ exp(l − m), and Σ exp(l − m)·(l − m).
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

// Logits and their partials. A task is a block of row tiles times a chunk; chunks run slowest.
typedef struct {
	grpo_gemm g; // the product; its out is unused
	const int32_t *targets;
	grpo_partial *partials; // [rows][chunks]
	float *target_logits;   // [rows]
	int64_t chunks;
	grpo_logit_form form;
} grpo_head_chunks;
typedef grpo_head_chunks grpo_tiles_head_chunks;

// The partials of given logits: of one chunk, [rows][LOGIT_STRIDE], or in the order of tiles of several consecutive ones,
// [panels][rows][PANEL]. And the weights exp(l − running maximum), packed as the left-hand side of a product for each chunk. A task
// is a row tile.
typedef struct {
	float *logits, *packed;
	int64_t rows, tiles;
	int64_t chunk, chunks, width; // the first chunk, how many there are in all, and the width of the given ones together
	const int32_t *targets;
	grpo_partial *partials;
	float *target_logits;
	float *running; // [rows] the largest logit so far
	float *scale;   // [given chunks][rows] the factor by which the sum of the chunks before shrinks
	int32_t form;   // in which the weights are packed
	int32_t pieces; // of the weights, in the order of tiles
	grpo_logit_form logit_form;
} grpo_head_weights;

// Combines partials into results. Row i here is row index[i] of the outputs.
typedef struct {
	int64_t rows, chunks;
	const grpo_partial *partials;
	const float *target_logits;
	const int32_t *index;
	float *logp, *entropy, *lse;
	float *inverse_sum; // [rows]
} grpo_head_combine;

// jacobian = inv_temp · (slope of the target · w[target] − mean·inverse_sum). mean_stride is the distance of rows of mean, mean_apart
// that of the panels of a row. A task is a row.
typedef struct {
	int64_t rows, width, mean_stride, mean_apart;
	grpo_matrix w;
	const int32_t *targets, *index;
	const float *mean, *inverse_sum, *target_logits;
	grpo_logit_form form;
	float *jacobian;
} grpo_head_jacobian;

// Turns the logits of one chunk into their gradients, in place. A task is a row.
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
