// The output head: log-probabilities without all logits in memory. The host computes a chunk of logits of some rows by an ordinary
// product, and these kernels reduce it before the next one. For the Jacobian the chunks go in ascending order: logits become weights
// relative to the largest logit so far, and their product with the chunk's rows of w is added to the sum of the chunks before, rescaled
// to the same maximum.
#include "codes.h"
#include "head.h"

// A block has a row of chunk c. If the target is in the chunk, its logit is stored.
DEVICE Partial chunk_partial(Four *l, float *logits, u32 c, u32 vocabulary, LogitTransform transform, const int *targets,
	Partial *partials, float *target_logit) {
	u32 row = block(), width = width_of(c, vocabulary), target = (u32)targets[row] - c * chunk;
	load_chunk(l, logits, width, transform);
	if (target < width && thread() == 0)
		target_logit[row] = transform.apply(logits[target]);
	Partial partial = reduce(l, width);
	if (thread() == 0)
		partials[(u64)row * ((vocabulary + chunk - 1) / chunk) + c] = partial;
	return partial;
}

KERNEL head_partials(float *logits, u32 c, u32 vocabulary, float cap, float scale, const int *targets, Partial *partials,
	float *target_logit) {
	Four l[fours];
	chunk_partial(l, logits + (u64)block() * chunk, c, vocabulary, {cap, scale}, targets, partials, target_logit);
}

// The same, and logits become weights times their slopes. running_max [rows] is the largest logit so far; mean [rows, H] is the sum of
// the chunks before.
KERNEL head_weights(float *logits, u32 c, u32 vocabulary, float cap, float scale, const int *targets, Partial *partials,
	float *target_logit, float *running_max, float *mean, u32 H) {
	Four l[fours];
	u32 row = block(), width = width_of(c, vocabulary);
	logits += (u64)row * chunk, mean += (u64)row * H;
	LogitTransform transform = {cap, scale};
	Partial partial = chunk_partial(l, logits, c, vocabulary, transform, targets, partials, target_logit);
	float before = c ? running_max[row] : partial.max, now = Greatest::of(before, partial.max);
	float grow = exponential(partial.max - now), shrink = exponential(before - now);
	barrier(); // everyone has read running_max
	if (thread() == 0)
		running_max[row] = now;
	UNROLL for (u32 k = 0; k < fours; k++) {
		Four weight = l[k] * grow;
		if (cap != 0) {
			Four raw = load_four(logits, first_column(k), width, true);
			UNROLL for (u32 i = 0; i < 4; i++)
				weight[i] *= transform.slope(transform.apply(raw[i]));
		}
		store_four(logits, first_column(k), width, true, weight);
	}
	if (shrink != 1)
		for (u32 i = thread(); i < H; i += threads)
			mean[i] *= shrink;
}

// Reduces partials to results: a warp has a row, which is row index[row] of the outputs. The entropy is log S − Σ exp(l − m)·(l − m) / S.
KERNEL head_results(float *logp, float *entropy, float *lse, float *inverse, const Partial *partials, const float *target_logit,
	const int *index, u32 chunks, u32 rows) {
	u32 row = block() * (threads / 32) + thread() / 32;
	if (row >= rows)
		return;
	Total t = total(partials + (u64)row * chunks, chunks);
	double log_sum = logarithm(t.sum);
	if (lane() != 0)
		return;
	u32 to = (u32)index[row];
	lse[to] = (float)((double)t.max + log_sum);
	logp[to] = log_probability(target_logit[row], t.max, log_sum);
	entropy[to] = (float)(log_sum - t.moment / t.sum);
	inverse[row] = (float)(1 / t.sum);
}

// jacobian [T, H] = scale · (slope of the target · w[target] − mean / S): a block has a row.
template <class Weight>
DEVICE void jacobian_row(float *jacobian, const float *mean, const float *inverse, const int *targets, const int *index,
	const float *target_logit, LogitTransform transform, u32 H, Weight weight) {
	u32 row = block();
	float slope = transform.slope(target_logit[row]);
	u64 target = (u64)targets[row];
	jacobian += (u64)index[row] * H, mean += (u64)row * H;
	for (u32 i = thread(); i < H; i += threads)
		jacobian[i] = (weight(target, i) * slope - mean[i] * inverse[row]) * transform.scale;
}

KERNEL head_jacobian(float *jacobian, const float *w, const float *mean, const float *inverse, const int *targets, const int *index,
	const float *target_logit, float cap, float scale, u32 H) {
	jacobian_row(jacobian, mean, inverse, targets, index, target_logit, {cap, scale}, H, [&](u64 row, u32 i) { return w[row * H + i]; });
}
KERNEL head_jacobian_bf16(float *jacobian, const u16 *w, const float *mean, const float *inverse, const int *targets, const int *index,
	const float *target_logit, float cap, float scale, u32 H) {
	jacobian_row(jacobian, mean, inverse, targets, index, target_logit, {cap, scale}, H,
		[&](u64 row, u32 i) { return __builtin_bit_cast(float, (u32)w[row * H + i] << 16); });
}
KERNEL head_jacobian_codes(float *jacobian, CODES_ARGUMENTS, const float *mean, const float *inverse, const int *targets, const int *index,
	const float *target_logit, float cap, float scale, u32 H) {
	Codes w = CODES;
	jacobian_row(jacobian, mean, inverse, targets, index, target_logit, {cap, scale}, H,
		[&](u64 row, u32 i) { return weight_of(w, H, row, i); });
}

// LogProbGradX: out [T, H] = the rows of x, each times its scale. A block has 1,024 columns of a row.
KERNEL scale_rows(float *out, const float *x, const float *scales, u32 H) {
	out += (u64)block() * H, x += (u64)block() * H;
	u32 i = 4 * (block_y() * threads + thread());
	bool wide = aligned(out, x) && H % 4 == 0;
	store_four(out, i, H, wide, load_four(x, i, H, wide) * scales[block()]);
}

// LogProbGradW: the logits of chunk c become gradients of the loss, dlogp · scale · slope · (onehot(target) − softmax).
KERNEL head_grad_logits(float *logits, u32 c, u32 vocabulary, float cap, float scale, const int *targets, const int *index,
	const float *dlogp, const float *lse) {
	Four l[fours];
	u32 row = block(), width = width_of(c, vocabulary), target = (u32)targets[row] - c * chunk, from = (u32)index[row];
	logits += (u64)row * chunk;
	float d = dlogp[from] * scale, all = lse[from];
	LogitTransform transform = {cap, scale};
	load_chunk(l, logits, width, transform);
	UNROLL for (u32 k = 0; k < fours; k++)
		if (k * 4 * threads < width) {
			UNROLL for (u32 i = 0; i < 4; i++)
				l[k][i] = transform.slope(l[k][i]) * d * ((first_column(k) + i == target ? 1 : 0) - exponential(l[k][i] - all));
			store_four(logits, first_column(k), width, true, l[k]);
		}
}
