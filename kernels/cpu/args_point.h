// Arguments of the kernels that process rows independently, and of the optimizer. A task is one row unless
// stated otherwise; included after args_linear.h.
//
// If `apart` is not 0, rows of out are rounded (pack_row in tiles_rows.h), with that stride in bytes. If `stream` is not 0, they are
// written around the caches.

typedef struct {
	float *out; // [rows, m.cols]
	grpo_matrix m;
	const int32_t *ids;
} grpo_embed;

// A task is one block of SUM_COLUMNS columns, and sees all rows in order.
typedef struct {
	float *d_table; // [·, cols]
	const float *d_out;
	const int32_t *ids;
	int64_t rows, cols;
} grpo_embed_grad;

typedef struct {
	float *out;
	const float *dy; // gradients only
	const float *x, *weight;
	float eps, minus; // minus is subtracted from the weight: the negative offset of a weight that is stored without it
	int64_t cols, apart;
} grpo_rms_norm;
typedef grpo_rms_norm grpo_rms_norm_grad_x;

// out [rows, heads] = 1 / sqrt(mean(x²) + eps) of the first heads runs of cols numbers of each row.
typedef struct {
	float *out;
	const float *x;
	float eps;
	int64_t stride, heads, cols;
} grpo_inverse_rms;

// A task is one block of SUM_COLUMNS columns.
typedef struct {
	float *dw;
	const float *dy, *x;
	const float *inverse; // [rows], from inverse_rms
	int64_t rows, cols;
} grpo_rms_norm_grad_w;

typedef struct {
	float *out;
	const float *dy; // gradients only
	const float *x, *qw, *kw, *rope;
	float eps, scale; // scale is for queries, if rows are rounded; not for gradients
	int64_t q_heads, kv_heads, dim;
	int64_t apart, stream;
} grpo_qk_norm_rope;
typedef grpo_qk_norm_rope grpo_qk_norm_rope_grad_x;

// A task is one block of ROPE_COLUMNS pairs of columns, first those of the queries, then of the keys.
enum { ROPE_COLUMNS = 16 };
typedef struct {
	float *dqw, *dkw;
	const float *dy, *x, *rope;
	const float *inverse; // [rows, q_heads + kv_heads], from inverse_rms
	int64_t rows, q_heads, kv_heads, dim;
} grpo_qk_norm_rope_grad_w;

typedef struct {
	float *out;
	const float *dy; // gradients only
	const float *x;  // [rows, 2·cols]
	int64_t cols, apart;
} grpo_swiglu;
typedef grpo_swiglu grpo_swiglu_grad;

typedef grpo_swiglu grpo_geglu, grpo_geglu_grad;

typedef struct {
	float *out;
	const float *x, *rope;
	float scale; // of queries, if rows are rounded and `back` is 0
	int64_t q_heads, kv_heads, dim, back, apart, stream;
} grpo_rope;

// The rest process one row of n numbers; a task is RUN of them.
enum { RUN = 8192 };
typedef struct {
	float *out;
	const float *a, *b;
	int64_t n;
} grpo_add;

typedef struct {
	float *out;
	const float *x;
	float by;
	int64_t n;
} grpo_scale;

typedef struct {
	double *out; // one sum for each task
	const float *x;
	int64_t n;
} grpo_sum_squares;

typedef struct {
	float *p, *m, *v;
	const float *g;
	int64_t n;
	float rate, decay; // decay is rate · weight decay
	float beta1, beta2, eps, scale;
	float correction1, correction2;
} grpo_adam;
