// Attention of many rows in bf16, for attention_bf16.cu: the sums and their order are those of Tensor there.
#pragma once
#include "attend.h"
#include "attention_rows.h"

// A tile has 16 pairs for each of its warps, and 64 keys.
template <u32 dim_, u32 warps_down_> struct Many {
	typedef u16 Number;
	static constexpr u32 dim = dim_, warps_down = warps_down_, warp_rows = 16, tile_rows = warp_rows * warps_down,
		threads = 32 * warps_down, keys = 64, pitch = dim + 8;
	// Addresses in shared memory, in bytes: queries, keys, values, and what a thread keeps of the parts before: the maximum score of a row,
	// and its sum of weights.
	static constexpr u32 k = tile_rows * pitch * 2, v = k + keys * pitch * 2, totals = v + keys * pitch * 2, bytes = totals + threads * 16;
	static_assert(bytes <= 99 << 10);

	Scoring scoring;
	Reads reads;
	u32 base_;
	float score[keys / 8][4], weighted[dim / 8][4];
	float max_score[2], sum[keys / 16][2];

	static MEMBER u32 row() { return thread_here() / 32 * warp_rows + thread_here() % 32 / 4; } // the first row of which a thread has elements

	static MEMBER u32 total_offset(u32 base, u32 half) { return base + totals + (half * threads + thread_here()) * 8; }

	MEMBER Many(u32 base, const Attention &a, const Pairs &pairs)
		: scoring(a.scoring), reads(a.scoring, pairs, thread() / 32 * warp_rows, warp_rows), base_(base) {
		for_each_query<Many>(a, pairs, [&](u32 r, u32 c, Four x) {
			store(base + (r * pitch + c) * 2, rounded(x[0], x[1]));
			store(base + (r * pitch + c) * 2 + 4, rounded(x[2], x[3]));
		});
		for_each_row([&](u32 half) {
			u32 at = total_offset(base, half);
			store(at, lowest), store(at + 4, 0.0f);
		});
		reset();
	}

	MEMBER void reset() {
		UNROLL for (u32 half = 0; half < 2; half++) {
			max_score[half] = lowest;
			UNROLL for (u32 g = 0; g < keys / 16; g++)
				sum[g][half] = 0;
		}
		UNROLL for (u32 j = 0; j < dim / 8; j++)
			UNROLL for (u32 n = 0; n < 4; n++)
				weighted[j][n] = 0;
	}

	// scores computes the scores of the keys from position key on.
	MEMBER void scores(const Pairs &pairs, u32 key) {
		u32 lane = thread_here() % 32, base = opaque(base_), at = base + k + weight_fragment_offset<false, pitch>(lane);
		products<dim, keys, pitch>(score, base + thread_here() / 32 * warp_rows * pitch * 2 + row_fragment_offset<pitch>(lane), at);
		if (scoring.cap != 0)
			UNROLL for (u32 i = 0; i < keys / 2; i++)
				score[i / 4][i % 4] = materialised(scoring.capped(score[i / 4][i % 4]));
		if (!reads.all(key, keys))
			UNROLL for (u32 half = 0; half < 2; half++) {
				u32 position = pairs.position(row() + 8 * half);
				UNROLL for (u32 i = 0; i < keys / 4; i++) {
					float &x = score[i / 2][2 * half + i % 2];
					x = scoring.reads(position, key + i / 2 * 8 + lane % 4 * 2 + i % 2) ? x : lowest;
				}
			}
	}

	// add turns scores into weights, rescales the sums where the maximum score has grown, and adds weighted values.
	MEMBER void add() {
		float shrink[2], from[2], factor[2];
		bool grown = false;
		for_each_row([&](u32 half) {
			float block_max = lowest;
			UNROLL for (u32 i = 0; i < keys / 4; i++)
				block_max = greatest(block_max, score[i / 2][2 * half + i % 2]);
			block_max = greatest(block_max, shuffle_xor(block_max, 1));
			block_max = greatest(block_max, shuffle_xor(block_max, 2));
			float before = max_score[half], new_max = greatest(before, block_max);
			max_score[half] = new_max, shrink[half] = exponential(before - new_max), grown |= !(before == new_max);
			from[half] = new_max == lowest ? 0 : new_max; // if nothing was read yet, the weights are 0
			factor[half] = fma(new_max, 0, fast_exponential_factor);
		});
		if (any(grown)) // else the factor is 1 for all
			for_each_row([&](u32 half) {
				UNROLL for (u32 j = 0; j < dim / 8; j++)
					weighted[j][2 * half] *= shrink[half], weighted[j][2 * half + 1] *= shrink[half];
			});
		u32 lane = thread_here() % 32, at = opaque(base_) + v + weight_fragment_offset<true, pitch>(lane);
		UNROLL for (u32 g = 0; g < keys / 16; g++) {
			u32 weights[4];
			for_each_row([&](u32 half) {
				float w[4];
				UNROLL for (u32 n = 0; n < 4; n++)
					w[n] = fast_exponential(score[2 * g + n / 2][2 * half + n % 2] - from[half], factor[half]);
				sum[g][half] = fma(sum[g][half], shrink[half], (w[0] + w[1]) + (w[2] + w[3]));
				weights[half] = rounded(w[0], w[1]), weights[2 + half] = rounded(w[2], w[3]);
			});
			add_products<dim>(weighted, weights, at + g * 16 * pitch * 2);
		}
	}

	template <class F> MEMBER void for_each_row(F f) {
		UNROLL for (u32 half = 0; half < 2; half++)
			f(half);
	}

	// end_part adds a part to the parts before.
	MEMBER void end_part(const Attention &a, const Pairs &pairs, u32 key, bool end) {
		u32 lane = thread_here() % 32, first = row();
		for_each_row([&](u32 half) {
			u32 at = total_offset(opaque(base_), half);
			float max_before = load(at), sum_before = load(at + 4), all = 0;
			UNROLL for (u32 g = 0; g < keys / 16; g++) {
				float group_sum = sum[g][half];
				group_sum += shuffle_xor(group_sum, 1);
				group_sum += shuffle_xor(group_sum, 2);
				all = g ? all + group_sum : group_sum;
			}
			Merge m(max_before, max_score[half]);
			float sum_now = m.of(sum_before, all);
			store(at, m.max_score), store(at + 4, sum_now);
			Target to(a, pairs, first + 8 * half, key, end);
			float factor = to.last ? 1 / sum_now : 1;
			u32 c = lane % 4 * 2, size = opaque(a.heads.dim);
			UNROLL for (u32 i = 0; i < dim / 4; i++) {
				u32 column = c + i / 2 * 8 + i % 2;
				float x = m.of(to.before(column < size, column), weighted[i / 2][2 * half + i % 2]) * factor;
				write_if((column < size) & to.exists, to.weighted + column, x);
			}
			to.sums(lane % 4 == 0, m.max_score, sum_now);
		});
		reset();
	}

	// run copies values while keys are used, and the next keys while values are. The copy of the first keys has begun.
	template <class F, class L>
	static MEMBER void run(u32 base, const Attention &a, const Pairs &pairs, u32 first, u32 to, F fetch, L find_rows, const u16 *keys,
		const u16 *values) {
		Many e(base, a, pairs);
		ROLLED for (u32 key = first; key < to; key += Many::keys) {
			u32 next_key = key + Many::keys;
			wait<0>();
			barrier(); // keys have arrived, and the last values are no longer needed
			find_rows(key);
			fetch(v, values, key);
			commit();
			e.scores(pairs, key);
			wait<0>();
			barrier(); // values have arrived, and the keys are no longer needed
			find_rows(next_key);
			fetch(k, keys, next_key);
			commit();
			e.add();
			if (next_key % part == 0 || next_key >= to)
				e.end_part(a, pairs, key, next_key >= to);
		}
	}
};
