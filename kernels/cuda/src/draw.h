// Top-k and top-p of a row: the order of tokens by likelihood, and the cut after a number of them or a share of their mass.
#pragma once
#include "bins.h"
#include "head.h"

// Tokens are ordered by falling likelihood, ties by ascending token: that is by rank, then token. A truncation keeps a prefix of that
// order, up to a cut.
DEVICE u32 rank_of(float logit) {
	u32 bits = __builtin_bit_cast(u32, logit);
	return bits >> 31 ? bits : 0x7fffffff - bits;
}
DEVICE u64 order_key(u32 rank, u32 token) { return (u64)rank << 32 | token; }
constexpr u64 no_cut = ~0ull;

// Numbers are sorted into bins by some bits of their rank. The first round bins them by distance from the largest, in steps of 1/32, the
// last bin being open: otherwise most of a vocabulary would share one bin.
constexpr u32 bins = 2048, bins_per_thread = bins / threads;

DEVICE u32 bucket_of(float logit, float max) {
	float steps = (max - logit) * 32;
	return steps < bins - 1 ? (u32)steps : bins - 1;
}

// Masses are added in no fixed order, so they are integers: multiples of 2^-42, of which a vocabulary has fewer than 2^64.
DEVICE u64 fixed_point_mass(float mass) { return mass <= 1 ? (u64)(mass * 0x1p42f) : 0; }

// for_each_logit calls act(logit, token) for a row. A row has one block, which mostly waits for memory, so a thread has many loads in
// flight.
template <class Function> DEVICE void for_each_logit(const float *logits, u32 vocabulary, Function act) {
	constexpr u32 loads = 4, step = 4 * threads;
	bool wide = aligned(logits);
	_Pragma("nounroll") for (u32 i = 4 * thread(); i < vocabulary; i += loads * step) {
		Four v[loads];
		if (wide && i + (loads - 1) * step + 4 <= vocabulary)
			UNROLL for (u32 n = 0; n < loads; n++)
				v[n] = *(const Four *)(logits + i + n * step);
		else
			UNROLL for (u32 n = 0; n < loads; n++)
				v[n] = load_four(logits, i + n * step, vocabulary, false);
		UNROLL for (u32 n = 0; n < loads; n++)
			UNROLL for (u32 k = 0; k < 4; k++)
				if (i + n * step + k < vocabulary)
					act(v[n][k], i + n * step + k);
	}
}

// A number of the likeliest tokens, and their mass.
struct Share {
	u32 tokens;
	u64 mass;
};
DEVICE Share operator+(Share a, Share b) { return {a.tokens + b.tokens, a.mass + b.mass}; }

// The smallest share that suffices.
struct Goal {
	u32 tokens;
	double mass;

	__device__ __attribute__((always_inline)) bool reached(Share s) const { return s.tokens >= tokens || (double)s.mass >= mass; }
};

// Shared memory of find_cut.
struct Bins {
	u64 mass[bins];
	u32 tokens[bins];
	u32 bin; // in which the goal is reached; = bins, if it is not
	Share below, inside;
};

// find_bin finds the bin in which the goal is reached, counting from the likeliest. It adds the bins before to so_far; inside is the bin's
// own share.
DEVICE bool find_bin(Bins &b, const Goal &goal, Share *so_far, Share *inside, u32 *bin) {
	u32 first = thread() * bins_per_thread;
	Share own_share = {}, all, lower = *so_far;
	UNROLL for (u32 i = 0; i < bins_per_thread; i++)
		own_share = own_share + Share{b.tokens[first + i], b.mass[first + i]};
	lower = lower + Share{before(own_share.tokens, &all.tokens), before(own_share.mass, &all.mass)};
	if (thread() == 0)
		b.bin = bins;
	barrier();
	UNROLL for (u32 i = 0; i < bins_per_thread; i++) {
		Share this_bin = {b.tokens[first + i], b.mass[first + i]}, next = lower + this_bin;
		if (!goal.reached(lower) && goal.reached(next))
			b.bin = first + i, b.below = lower, b.inside = this_bin;
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

// The n-th token in ascending order of the tokens of a rank, up to a cut.
DEVICE u32 nth_of_rank(Bins &b, const float *logits, u32 vocabulary, u32 rank, u64 cut, u32 n) {
	for (u32 first = 0; first < vocabulary; first += threads) {
		u32 token = first + thread(), all;
		u32 one = token < vocabulary && rank_of(logits[token]) == rank && order_key(rank, token) <= cut, lower = before(one, &all);
		if (one && lower + 1 == n)
			b.bin = token;
		if (all >= n)
			break;
		n -= all;
	}
	barrier();
	return b.bin;
}

// The cut after `tokens` of the likeliest tokens, or after the given share of their mass, whichever comes first. Of the four rounds, the
// first finds the distance from the largest logit, the others 11, 11 and 10 bits of the rank.
DEVICE u64 find_cut(Bins &b, const float *logits, u32 vocabulary, float max, u64 cut, u32 tokens, double top_p) {
	Goal goal = {tokens, __builtin_inf()};
	Share so_far = {}, inside = {};
	u32 bucket = 0, rank = 0, known_bits = 0; // known_bits: mask of the bits of the rank found so far
	_Pragma("nounroll") for (u32 round = 0; round < 4; round++) {
		u32 shift = round == 1 ? 21 : round == 2 ? 10 : 0, bin;
		for (u32 i = thread(); i < bins; i += threads)
			b.mass[i] = 0, b.tokens[i] = 0;
		barrier();
		for_each_logit(logits, vocabulary, [&](float logit, u32 token) {
			u32 r = rank_of(logit), distance = bucket_of(logit, max);
			if (order_key(r, token) > cut || (round && (distance != bucket || (r & known_bits) != rank)))
				return;
			u32 bin = round ? (r & ~known_bits) >> shift : distance;
			count_into(&b.tokens[bin], 1);
			if (top_p < 1)
				count_into(&b.mass[bin], fixed_point_mass(exponential(logit - max)));
		});
		barrier();
		if (!round && top_p < 1) {
			u64 mass = 0, all;
			for (u32 i = thread(); i < bins; i += threads)
				mass += b.mass[i];
			before(mass, &all);
			goal.mass = (double)all * top_p;
			goal.mass = goal.mass < 1 ? 1 : goal.mass; // at least one token
		}
		if (!find_bin(b, goal, &so_far, &inside, &bin))
			return cut;
		if (round)
			rank |= bin << shift, known_bits = ~0u << shift;
		else
			bucket = bin;
	}
	// All tokens inside have the same mass. As many of them are kept as the goal needs.
	u32 low = 1, high = inside.tokens;
	u64 mass = inside.mass / inside.tokens;
	while (low < high) {
		u32 middle = low + (high - low) / 2;
		if (goal.reached(so_far + Share{middle, middle * mass}))
			high = middle;
		else
			low = middle + 1;
	}
	u64 end = order_key(rank, ~0u);
	if (low < inside.tokens)
		end = order_key(rank, nth_of_rank(b, logits, vocabulary, rank, cut, low));
	return end < cut ? end : cut;
}
