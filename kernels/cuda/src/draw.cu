// A token for each row of logits, by inverse transform sampling: the cumulative distribution is in ascending order of the tokens. Partials
// and totals are those of head.h, so that the log-probability of a drawn token is LogProb's.
//
// All logits of some rows are there at once, [rows, stride]. The mass of a token is exp(logit − the row's largest).
#include "bins.h"
#include "head.h"

DEVICE u32 chunks_of(u32 vocabulary) { return (vocabulary + chunk - 1) / chunk; }

// A block has a chunk of a row. Logits become those at the row's temperature.
KERNEL draw_partials(Partial *partials, float *logits, u32 stride, u32 vocabulary, const float *inverse_temperature, float cap) {
	Four l[fours];
	u32 row = block_y(), width = width_of(block(), vocabulary);
	float scale = inverse_temperature[row];
	scale = scale == 0 ? 1 : scale;
	logits += (u64)row * stride + block() * chunk;
	take_chunk(l, logits, width, {cap, scale});
	if (scale != 1 || cap != 0)
		UNROLL for (u32 k = 0; k < fours; k++)
			put(logits, place(k), width, aligned(logits), l[k]);
	Partial p = reduce(l, width);
	if (thread() == 0)
		partials[row * chunks_of(vocabulary) + block()] = p;
}

// The token that is given to a row; negative: one is to be drawn.
DEVICE int given_to(const int *given, u32 row) { return given ? given[row] : -1; }

// A block has a chunk of a row: what may not come is excluded, and the partial is that of the rest. A row whose token is given stays.
KERNEL draw_mask(Partial *partials, float *logits, u32 stride, u32 vocabulary, const u32 *allowed, const int *given) {
	Four l[fours];
	u32 row = block_y(), width = width_of(block(), vocabulary), words = (vocabulary + 31) / 32;
	bool all = given_to(given, row) >= 0;
	logits += (u64)row * stride + block() * chunk, allowed += (u64)row * words + block() * (chunk / 32);
	take_chunk(l, logits, width, {0, 1});
	UNROLL for (u32 k = 0; k < fours; k++) {
		u32 word = all || place(k) >= width ? ~0u : allowed[place(k) / 32];
		UNROLL for (u32 i = 0; i < 4; i++)
			l[k][i] = word >> (place(k) + i) % 32 & 1 ? l[k][i] : -__builtin_inff();
		put(logits, place(k), width, aligned(logits), l[k]);
	}
	Partial p = reduce(l, width);
	if (thread() == 0)
		partials[row * chunks_of(vocabulary) + block()] = p.max > -__builtin_inff() ? p : Partial{p.max, 0, 0};
}

// The order from likely to unlikely tokens, ties to the smaller one: that of rank, then token. What a truncation keeps is a beginning of
// that order, up to a cut.
DEVICE u32 rank_of(float logit) {
	u32 bits = __builtin_bit_cast(u32, logit);
	return bits >> 31 ? bits : 0x7fffffff - bits;
}
DEVICE u64 place_of(u32 rank, u32 token) { return (u64)rank << 32 | token; }
constexpr u64 everything = ~0ull;

// Numbers are sorted into bins by some bits of their rank. Before that they are by their distance from the largest, in steps of 1/32, of
// which the last takes all the rest: otherwise most of a vocabulary would be in the same bin.
constexpr u32 bins = 2048, bins_each = bins / threads;

DEVICE u32 bucket_of(float logit, float max) {
	float steps = (max - logit) * 32;
	return steps < bins - 1 ? (u32)steps : bins - 1;
}

// Masses that are added in any order are integers: multiples of 2^-42, of which a vocabulary has fewer than 2^64.
DEVICE u64 whole(float mass) { return mass <= 1 ? (u64)(mass * 0x1p42f) : 0; }

// act(logit, token) for each of a row. A row has one block, which waits for memory above all: so many loads of a thread are under way.
template <class Do> DEVICE void each(const float *l, u32 vocabulary, Do act) {
	constexpr u32 loads = 4, step = 4 * threads;
	bool wide = aligned(l);
	_Pragma("nounroll") for (u32 i = 4 * thread(); i < vocabulary; i += loads * step) {
		Four v[loads];
		if (wide && i + (loads - 1) * step + 4 <= vocabulary)
			UNROLL for (u32 n = 0; n < loads; n++)
				v[n] = *(const Four *)(l + i + n * step);
		else
			UNROLL for (u32 n = 0; n < loads; n++)
				v[n] = take(l, i + n * step, vocabulary, false);
		UNROLL for (u32 n = 0; n < loads; n++)
			UNROLL for (u32 k = 0; k < 4; k++)
				if (i + n * step + k < vocabulary)
					act(v[n][k], i + n * step + k);
	}
}

// A number of tokens from the likely ones on, and their mass.
struct Share {
	u32 tokens;
	u64 mass;
};
DEVICE Share operator+(Share a, Share b) { return {a.tokens + b.tokens, a.mass + b.mass}; }

// The first share that is enough.
struct Goal {
	u32 tokens;
	double mass;

	__device__ __attribute__((always_inline)) bool reached(Share s) const { return s.tokens >= tokens || (double)s.mass >= mass; }
};

// What tighten has in shared memory.
struct Bins {
	u64 mass[bins];
	u32 tokens[bins];
	u32 bin; // in which the goal is reached; bins, if it is not
	Share below, inside;
};

// The bin in which the goal is reached, of those from the likely ones on; what is before it is added to so_far, and inside is what it has.
DEVICE bool reach(Bins &b, const Goal &goal, Share *so_far, Share *inside, u32 *bin) {
	u32 first = thread() * bins_each;
	Share own = {}, all, lower = *so_far;
	UNROLL for (u32 i = 0; i < bins_each; i++)
		own = own + Share{b.tokens[first + i], b.mass[first + i]};
	lower = lower + Share{before(own.tokens, &all.tokens), before(own.mass, &all.mass)};
	if (thread() == 0)
		b.bin = bins;
	barrier();
	UNROLL for (u32 i = 0; i < bins_each; i++) {
		Share here = {b.tokens[first + i], b.mass[first + i]}, next = lower + here;
		if (!goal.reached(lower) && goal.reached(next))
			b.bin = first + i, b.below = lower, b.inside = here;
		lower = next;
	}
	barrier();
	*bin = b.bin;
	if (*bin == bins)
		return false;
	*so_far = b.below, *inside = b.inside;
	barrier();
	return true;
}

// The token that is the n-th, from the small ones on, of those of a rank up to a cut.
DEVICE u32 nth_of_rank(Bins &b, const float *l, u32 vocabulary, u32 rank, u64 cut, u32 n) {
	for (u32 first = 0; first < vocabulary; first += threads) {
		u32 token = first + thread(), all;
		u32 one = token < vocabulary && rank_of(l[token]) == rank && place_of(rank, token) <= cut, lower = before(one, &all);
		if (one && lower + 1 == n)
			b.bin = token;
		if (all >= n)
			break;
		n -= all;
	}
	barrier();
	return b.bin;
}

// The cut after the likely tokens of those up to a cut that number so many, or that have that part of their mass, whichever comes first.
// Of the four rounds, the first finds the distance from the largest logit, the others 11, 11 and 10 bits of the rank.
DEVICE u64 tighten(Bins &b, const float *l, u32 vocabulary, float max, u64 cut, u32 tokens, double part) {
	Goal goal = {tokens, __builtin_inf()};
	Share so_far = {}, inside = {};
	u32 bucket = 0, rank = 0, known = 0; // the bits of the rank that are known
	_Pragma("nounroll") for (u32 round = 0; round < 4; round++) {
		u32 shift = round == 1 ? 21 : round == 2 ? 10 : 0, bin;
		for (u32 i = thread(); i < bins; i += threads)
			b.mass[i] = 0, b.tokens[i] = 0;
		barrier();
		each(l, vocabulary, [&](float logit, u32 token) {
			u32 r = rank_of(logit), distance = bucket_of(logit, max);
			if (place_of(r, token) > cut || (round && (distance != bucket || (r & known) != rank)))
				return;
			u32 bin = round ? (r & ~known) >> shift : distance;
			count_into(&b.tokens[bin], 1);
			if (part < 1)
				count_into(&b.mass[bin], whole(exponential(logit - max)));
		});
		barrier();
		if (!round && part < 1) {
			u64 mass = 0, all;
			for (u32 i = thread(); i < bins; i += threads)
				mass += b.mass[i];
			before(mass, &all);
			goal.mass = (double)all * part;
			goal.mass = goal.mass < 1 ? 1 : goal.mass; // one token at the least
		}
		if (!reach(b, goal, &so_far, &inside, &bin))
			return cut;
		if (round)
			rank |= bin << shift, known = ~0u << shift;
		else
			bucket = bin;
	}
	// All tokens inside have the same mass. As many of them are kept as it takes.
	u32 few = 1, enough = inside.tokens;
	u64 mass = inside.mass / inside.tokens;
	while (few < enough) {
		u32 middle = few + (enough - few) / 2;
		if (goal.reached(so_far + Share{middle, middle * mass}))
			enough = middle;
		else
			few = middle + 1;
	}
	u64 end = place_of(rank, ~0u);
	if (few < inside.tokens)
		end = place_of(rank, nth_of_rank(b, l, vocabulary, rank, cut, few));
	return end < cut ? end : cut;
}

// The cuts of top-k, then top-p: a block has a row. Some rows have none.
KERNEL draw_cuts(u64 *cuts, const float *logits, u32 stride, u32 vocabulary, const Partial *partials, const float *inverse_temperature,
	const int *top_k, const float *top_p) {
	__shared__ Bins b;
	u32 row = block(), chunks = chunks_of(vocabulary);
	u64 cut = everything;
	if (inverse_temperature[row] != 0) {
		float max = largest(partials + row * chunks, chunks);
		logits += (u64)row * stride;
		if (top_k[row] > 0 && (u32)top_k[row] < vocabulary)
			cut = tighten(b, logits, vocabulary, max, cut, (u32)top_k[row], 1);
		if (top_p[row] < 1)
			cut = tighten(b, logits, vocabulary, max, cut, ~0u, (double)top_p[row]);
	}
	if (thread() == 0)
		cuts[row] = cut;
}

// How a row is truncated, and what a token counts then, relative to a logit.
struct Kept {
	u64 cut;
	float min_p;
	bool all;

	__device__ __attribute__((always_inline)) float mass(float logit, u32 token, float relative) const {
		float e = exponential(logit - relative);
		return all || (place_of(rank_of(logit), token) <= cut && !(e < min_p)) ? e : 0;
	}
};
DEVICE Kept kept_of(const u64 *cuts, const float *min_p, const float *inverse_temperature, u32 row) {
	return {cuts[row], min_p[row], inverse_temperature[row] == 0 || (cuts[row] == everything && !(min_p[row] > 0))};
}

// The mass of what is kept of a chunk, relative to the row's largest logit: a block has a chunk of a row.
KERNEL draw_masses(double *masses, const float *logits, u32 stride, u32 vocabulary, const Partial *partials, const u64 *cuts,
	const float *min_p, const float *inverse_temperature) {
	u32 row = block_y(), chunks = chunks_of(vocabulary), width = width_of(block(), vocabulary);
	Kept kept = kept_of(cuts, min_p, inverse_temperature, row);
	if (kept.all)
		return;
	float max = largest(partials + row * chunks, chunks);
	double mass = 0;
	logits += (u64)row * stride + block() * chunk;
	each(logits, width, [&](float logit, u32 token) { mass += (double)kept.mass(logit, block() * chunk + token, max); });
	mass = over_block(mass);
	if (thread() == 0)
		masses[row * chunks + block()] = mass;
}

// The first token of a chunk at which the mass from there on passes the goal; the last one of any mass if rounding keeps it below.
DEVICE u32 pick(const float *logits, u32 c, u32 vocabulary, const Kept &kept, float relative, double goal) {
	constexpr u32 own = chunk / threads;
	u32 first = c * chunk + thread() * own, passes = ~0u, last = 0;
	float mass[own];
	double sum = 0, all;
	UNROLL for (u32 i = 0; i < own; i++) {
		mass[i] = first + i < vocabulary ? kept.mass(logits[first + i], first + i, relative) : 0;
		last = mass[i] > 0 ? first + i : last;
		sum += (double)mass[i];
	}
	sum = before(sum, &all);
	UNROLL for (u32 i = 0; i < own; i++) {
		sum += (double)mass[i];
		passes = mass[i] > 0 && sum > goal ? least(passes, first + i) : passes;
	}
	passes = over_block<Least>(passes);
	last = over_block<Greatest>(last);
	return passes < vocabulary ? passes : last;
}

// The first token that is as likely as any.
DEVICE u32 most_likely(const float *logits, u32 vocabulary, const Partial *p, u32 chunks, float max) {
	u32 c = 0, token = ~0u;
	while (c + 1 < chunks && p[c].max != max)
		c++;
	for (u32 i = c * chunk + thread(); i < vocabulary && i < (c + 1) * chunk; i += threads)
		token = logits[i] == max ? least(token, i) : token;
	token = over_block<Least>(token);
	return token < vocabulary ? token : 0; // 0 where a logit is no number
}

// Chunks are skipped by their masses until the goal falls into one, of which a token is picked: a block has a row.
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

// The likeliest tokens of a row, from the likeliest on: those up to a cut, each of which finds its place by how many come before it. A block
// has a row.
KERNEL draw_tops(int *tokens, float *logp, const float *logits, u32 stride, u32 vocabulary, const Partial *partials, u32 tops) {
	constexpr u32 most = 128;
	__shared__ Bins b;
	__shared__ u64 found[most];
	u32 row = block(), chunks = chunks_of(vocabulary), own = 0, all;
	logits += (u64)row * stride, tokens += (u64)row * tops, logp += (u64)row * tops;
	Total t = total(partials + row * chunks, chunks);
	u64 cut = tighten(b, logits, vocabulary, t.max, everything, tops, 1);
	each(logits, vocabulary, [&](float logit, u32 token) { own += place_of(rank_of(logit), token) <= cut; });
	u32 slot = before(own, &all);
	each(logits, vocabulary, [&](float logit, u32 token) {
		u64 mine = place_of(rank_of(logit), token);
		if (mine <= cut && slot < most)
			found[slot++] = mine;
	});
	barrier();
	u32 n = least(all, most);
	double log_sum = logarithm(t.sum);
	for (u32 i = thread(); i < n; i += threads) {
		u32 before = 0, token = (u32)found[i];
		for (u32 k = 0; k < n; k++)
			before += found[k] < found[i];
		if (before < tops)
			tokens[before] = (int)token, logp[before] = log_probability(logits[token], t.max, log_sum);
	}
	for (u32 i = n + thread(); i < tops; i += threads) // only where a logit is no number
		tokens[i] = 0, logp[i] = log_probability(logits[0], t.max, log_sum);
}

// What a row's token is under the distribution of those partials; one that is given takes the place of the one that was drawn, and has no
// log-probability where it is none of the vocabulary's. A block has a row.
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
