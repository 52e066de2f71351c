// Draws a token for each row of logits, by inverse transform sampling over the tokens in ascending order. Partials and totals are those
// of head.h, so that the log-probability of a drawn token is that of LogProb.
//
// All logits of some rows are in memory, [rows, stride]. The mass of a token is exp(logit − the largest logit of the row).
#include "draw.h"

DEVICE u32 chunks_of(u32 vocabulary) { return (vocabulary + chunk - 1) / chunk; }

// A block has a chunk of a row. Logits are divided by the row's temperature.
KERNEL draw_partials(Partial *partials, float *logits, u32 stride, u32 vocabulary, const float *inverse_temperature, float cap) {
	Four l[fours];
	u32 row = block_y(), width = width_of(block(), vocabulary);
	float scale = inverse_temperature[row];
	scale = scale == 0 ? 1 : scale;
	logits += (u64)row * stride + block() * chunk;
	load_chunk(l, logits, width, {cap, scale});
	if (scale != 1 || cap != 0)
		UNROLL for (u32 k = 0; k < fours; k++)
			store_four(logits, first_column(k), width, aligned(logits), l[k]);
	Partial partial = reduce(l, width);
	if (thread() == 0)
		partials[row * chunks_of(vocabulary) + block()] = partial;
}

// The token given for a row; negative: one is drawn.
DEVICE int given_to(const int *given, u32 row) { return given ? given[row] : -1; }

// A block has a chunk of a row. Forbidden tokens are excluded, and the partial is that of the others. A row with a given token does not
// change.
KERNEL draw_mask(Partial *partials, float *logits, u32 stride, u32 vocabulary, const u32 *allowed, const int *given) {
	Four l[fours];
	u32 row = block_y(), width = width_of(block(), vocabulary), words = (vocabulary + 31) / 32;
	bool all = given_to(given, row) >= 0;
	logits += (u64)row * stride + block() * chunk, allowed += (u64)row * words + block() * (chunk / 32);
	load_chunk(l, logits, width, {0, 1});
	UNROLL for (u32 k = 0; k < fours; k++) {
		u32 word = all || first_column(k) >= width ? ~0u : allowed[first_column(k) / 32];
		UNROLL for (u32 i = 0; i < 4; i++)
			l[k][i] = word >> (first_column(k) + i) % 32 & 1 ? l[k][i] : -__builtin_inff();
		store_four(logits, first_column(k), width, aligned(logits), l[k]);
	}
	Partial partial = reduce(l, width);
	if (thread() == 0)
		partials[row * chunks_of(vocabulary) + block()] = partial.max > -__builtin_inff() ? partial : Partial{partial.max, 0, 0};
}

// The cuts of top-k, then top-p: a block has a row. Some rows have no cut.
KERNEL draw_cuts(u64 *cuts, const float *logits, u32 stride, u32 vocabulary, const Partial *partials, const float *inverse_temperature,
	const int *top_k, const float *top_p) {
	__shared__ Bins b;
	u32 row = block(), chunks = chunks_of(vocabulary);
	u64 cut = no_cut;
	if (inverse_temperature[row] != 0) {
		float max = largest(partials + row * chunks, chunks);
		logits += (u64)row * stride;
		if (top_k[row] > 0 && (u32)top_k[row] < vocabulary)
			cut = find_cut(b, logits, vocabulary, max, cut, (u32)top_k[row], 1);
		if (top_p[row] < 1)
			cut = find_cut(b, logits, vocabulary, max, cut, ~0u, (double)top_p[row]);
	}
	if (thread() == 0)
		cuts[row] = cut;
}

// The truncation of a row, and the mass of a token then, relative to a logit.
struct Kept {
	u64 cut;
	float min_p;
	bool all;

	__device__ __attribute__((always_inline)) float mass(float logit, u32 token, float relative) const {
		float e = exponential(logit - relative);
		return all || (order_key(rank_of(logit), token) <= cut && !(e < min_p)) ? e : 0;
	}
};
DEVICE Kept kept_of(const u64 *cuts, const float *min_p, const float *inverse_temperature, u32 row) {
	return {cuts[row], min_p[row], inverse_temperature[row] == 0 || (cuts[row] == no_cut && !(min_p[row] > 0))};
}

// The kept mass of a chunk, relative to the largest logit of the row: a block has a chunk of a row.
KERNEL draw_masses(double *masses, const float *logits, u32 stride, u32 vocabulary, const Partial *partials, const u64 *cuts,
	const float *min_p, const float *inverse_temperature) {
	u32 row = block_y(), chunks = chunks_of(vocabulary), width = width_of(block(), vocabulary);
	Kept kept = kept_of(cuts, min_p, inverse_temperature, row);
	if (kept.all)
		return;
	float max = largest(partials + row * chunks, chunks);
	double mass = 0;
	logits += (u64)row * stride + block() * chunk;
	for_each_logit(logits, width, [&](float logit, u32 token) { mass += (double)kept.mass(logit, block() * chunk + token, max); });
	mass = over_block(mass);
	if (thread() == 0)
		masses[row * chunks + block()] = mass;
}

// The first token of a chunk at which the cumulative mass exceeds the goal; the last one of any mass if rounding keeps the sum below.
DEVICE u32 pick(const float *logits, u32 c, u32 vocabulary, const Kept &kept, float relative, double goal) {
	constexpr u32 own_tokens = chunk / threads;
	u32 first = c * chunk + thread() * own_tokens, passes = ~0u, last = 0;
	float mass[own_tokens];
	double sum = 0, all;
	UNROLL for (u32 i = 0; i < own_tokens; i++) {
		mass[i] = first + i < vocabulary ? kept.mass(logits[first + i], first + i, relative) : 0;
		last = mass[i] > 0 ? first + i : last;
		sum += (double)mass[i];
	}
	sum = before(sum, &all);
	UNROLL for (u32 i = 0; i < own_tokens; i++) {
		sum += (double)mass[i];
		passes = mass[i] > 0 && sum > goal ? min(passes, first + i) : passes;
	}
	passes = over_block<Least>(passes);
	last = over_block<Greatest>(last);
	return passes < vocabulary ? passes : last;
}

// The first of the likeliest tokens.
DEVICE u32 most_likely(const float *logits, u32 vocabulary, const Partial *partials, u32 chunks, float max) {
	u32 c = 0, token = ~0u;
	while (c + 1 < chunks && partials[c].max != max)
		c++;
	for (u32 i = c * chunk + thread(); i < vocabulary && i < (c + 1) * chunk; i += threads)
		token = logits[i] == max ? min(token, i) : token;
	token = over_block<Least>(token);
	return token < vocabulary ? token : 0; // 0 if a logit is NaN
}

// Skips chunks by their masses until the goal falls into one, and picks a token of that: a block has a row.
KERNEL draw_tokens(int *tokens, float *logp, const float *logits, u32 stride, u32 vocabulary, const Partial *partials, const double *masses,
	const u64 *cuts, const float *min_p, const float *inverse_temperature, const double *uniform) {
	u32 row = block(), chunks = chunks_of(vocabulary), token;
	Kept kept = kept_of(cuts, min_p, inverse_temperature, row);
	partials += row * chunks, masses += row * chunks, logits += (u64)row * stride;
	Total t = total(partials, chunks);
	double sum = t.sum;
	if (!kept.all) {
		sum = 0;
		for (u32 c = 0; c < chunks; c++)
			sum += masses[c];
	}
	if (inverse_temperature[row] == 0) {
		token = most_likely(logits, vocabulary, partials, chunks, t.max);
	} else {
		double left = uniform[row] * sum, goal = 0;
		u32 in = 0;
		for (u32 c = 0; c < chunks; c++) {
			double shrink = kept.all ? (double)exponential(partials[c].max - t.max) : 1;
			double mass = kept.all ? (double)partials[c].sum * shrink : masses[c];
			if (!(mass > 0))
				continue;
			in = c, goal = left / shrink;
			if (mass > left)
				break;
			left -= mass;
		}
		token = pick(logits, in, vocabulary, kept, kept.all ? partials[in].max : t.max, goal);
	}
	if (thread() == 0) {
		tokens[row] = (int)token;
		logp[row] = log_probability(logits[token], t.max, logarithm(sum));
	}
}

// The likeliest tokens of a row, in order: each of the tokens up to a cut finds its place by counting those before it. A block has a row.
KERNEL draw_tops(int *tokens, float *logp, const float *logits, u32 stride, u32 vocabulary, const Partial *partials, u32 tops) {
	constexpr u32 most = 128;
	__shared__ Bins b;
	__shared__ u64 found[most];
	u32 row = block(), chunks = chunks_of(vocabulary), own_count = 0, all;
	logits += (u64)row * stride, tokens += (u64)row * tops, logp += (u64)row * tops;
	Total t = total(partials + row * chunks, chunks);
	u64 cut = find_cut(b, logits, vocabulary, t.max, no_cut, tops, 1);
	for_each_logit(logits, vocabulary, [&](float logit, u32 token) { own_count += order_key(rank_of(logit), token) <= cut; });
	u32 slot = before(own_count, &all);
	for_each_logit(logits, vocabulary, [&](float logit, u32 token) {
		u64 key = order_key(rank_of(logit), token);
		if (key <= cut && slot < most)
			found[slot++] = key;
	});
	barrier();
	u32 n = min(all, most);
	double log_sum = logarithm(t.sum);
	for (u32 i = thread(); i < n; i += threads) {
		u32 before = 0, token = (u32)found[i];
		for (u32 k = 0; k < n; k++)
			before += found[k] < found[i];
		if (before < tops)
			tokens[before] = (int)token, logp[before] = log_probability(logits[token], t.max, log_sum);
	}
	for (u32 i = n + thread(); i < tops; i += threads) // only if a logit is NaN
		tokens[i] = 0, logp[i] = log_probability(logits[0], t.max, log_sum);
}

// The log-probability of a row's token under the distribution of the partials. A given token replaces the drawn one, and has no
// log-probability if it is not in the vocabulary. A block has a row.
KERNEL draw_scores(int *tokens, float *logp, float *raw, const float *logits, u32 stride, u32 vocabulary, const Partial *partials,
	const int *given) {
	u32 row = block(), chunks = chunks_of(vocabulary);
	Total t = total(partials + row * chunks, chunks);
	if (thread() != 0)
		return;
	bool scored = given_to(given, row) >= 0;
	u32 token = scored ? (u32)given[row] : (u32)tokens[row];
	float score = token < vocabulary ? log_probability(logits[(u64)row * stride + token], t.max, logarithm(t.sum)) : __builtin_nanf("");
	if (scored)
		tokens[row] = (int)token, logp[row] = score;
	if (raw)
		raw[row] = score;
}
