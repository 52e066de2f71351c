// Attention of many rows in bf16, for attention_bf16.cu: the sums and their order are those of Tensor there.
#pragma once
#include "attend.h"
#include "attention_rows.h"

// A tile has 16 pairs for each of down warps, and 64 keys.
template <u32 dim_, u32 down_> struct Many {
	typedef u16 Number;
	static constexpr u32 dim = dim_, down = down_, own = 16, high = own * down, threads = 32 * down, keys = 64, pitch = dim + 8;
	// Addresses in shared memory, in bytes: queries, keys, values, and what a thread keeps of the parts before: the maximum score of a row,
	// and its sum of weights.
	static constexpr u32 k = high * pitch * 2, v = k + keys * pitch * 2, whole = v + keys * pitch * 2, bytes = whole + threads * 16;
	static_assert(bytes <= 99 << 10);

	Scores f;
	Reads reads;
	u32 base_;
	float score[keys / 8][4], mean[dim / 8][4];
	float most[2], sum[keys / 16][2];

	static MEMBER u32 row() { return thread_here() / 32 * own + thread_here() % 32 / 4; } // the first row of which a thread has elements

	static MEMBER u32 place_of_whole(u32 base, u32 half) { return base + whole + (half * threads + thread_here()) * 8; }

	MEMBER Many(u32 base, const Attention &a, const Pairs &pairs) : f(a.f), reads(a.f, pairs, thread() / 32 * own, own), base_(base) {
		each_query<Many>(a, pairs, [&](u32 r, u32 c, Four x) {
			store(base + (r * pitch + c) * 2, rounded(x[0], x[1]));
			store(base + (r * pitch + c) * 2 + 4, rounded(x[2], x[3]));
		});
		each_row([&](u32 half) {
			u32 at = place_of_whole(base, half);
			store(at, lowest), store(at + 4, 0.0f);
		});
		begin();
	}

	MEMBER void begin() {
		UNROLL for (u32 half = 0; half < 2; half++) {
			most[half] = lowest;
			UNROLL for (u32 g = 0; g < keys / 16; g++)
				sum[g][half] = 0;
		}
		UNROLL for (u32 j = 0; j < dim / 8; j++)
			UNROLL for (u32 n = 0; n < 4; n++)
				mean[j][n] = 0;
	}

	// scores computes the scores of the keys from position key on.
	MEMBER void scores(const Pairs &pairs, u32 key) {
		u32 lane = thread_here() % 32, base = here(base_), at = base + k + weight_fragment_offset<false, pitch>(lane);
		products<dim, keys, pitch>(score, base + thread_here() / 32 * own * pitch * 2 + row_fragment_offset<pitch>(lane), at);
		if (f.cap != 0)
			UNROLL for (u32 i = 0; i < keys / 2; i++)
				score[i / 4][i % 4] = materialised(f.bent(score[i / 4][i % 4]));
		if (!reads.all(key, keys))
			UNROLL for (u32 half = 0; half < 2; half++) {
				u32 position = pairs.position(row() + 8 * half);
				UNROLL for (u32 i = 0; i < keys / 4; i++) {
					float &x = score[i / 2][2 * half + i % 2];
					x = f.reads(position, key + i / 2 * 8 + lane % 4 * 2 + i % 2) ? x : lowest;
				}
			}
	}

	// add turns scores into weights, rescales the sums where the maximum score has grown, and adds weighted values.
	MEMBER void add() {
		float shrink[2], from[2], factor[2];
		bool grown = false;
		each_row([&](u32 half) {
			float top = lowest;
			UNROLL for (u32 i = 0; i < keys / 4; i++)
				top = greatest(top, score[i / 2][2 * half + i % 2]);
			top = greatest(top, shuffle_xor(top, 1));
			top = greatest(top, shuffle_xor(top, 2));
			float before = most[half], now = greatest(before, top);
			most[half] = now, shrink[half] = exponential(before - now), grown |= !(before == now);
			from[half] = now == lowest ? 0 : now; // if nothing was read yet, the weights are 0
			factor[half] = fma(now, 0, factor_of_falling);
		});
		if (any(grown)) // else the factor is 1 for all
			each_row([&](u32 half) {
				UNROLL for (u32 j = 0; j < dim / 8; j++)
					mean[j][2 * half] *= shrink[half], mean[j][2 * half + 1] *= shrink[half];
			});
		u32 lane = thread_here() % 32, at = here(base_) + v + weight_fragment_offset<true, pitch>(lane);
		UNROLL for (u32 g = 0; g < keys / 16; g++) {
			u32 weights[4];
			each_row([&](u32 half) {
				float w[4];
				UNROLL for (u32 n = 0; n < 4; n++)
					w[n] = falling(score[2 * g + n / 2][2 * half + n % 2] - from[half], factor[half]);
				sum[g][half] = fma(sum[g][half], shrink[half], (w[0] + w[1]) + (w[2] + w[3]));
				weights[half] = rounded(w[0], w[1]), weights[2 + half] = rounded(w[2], w[3]);
			});
			add_products<dim>(mean, weights, at + g * 16 * pitch * 2);
		}
	}

	template <class F> MEMBER void each_row(F f) {
		UNROLL for (u32 half = 0; half < 2; half++)
			f(half);
	}

	// end_part adds a part to the parts before.
	MEMBER void end_part(const Attention &a, const Pairs &pairs, u32 key, bool end) {
		u32 lane = thread_here() % 32, first = row();
		each_row([&](u32 half) {
			u32 at = place_of_whole(here(base_), half);
			float most_before = load(at), sum_before = load(at + 4), all = 0;
			UNROLL for (u32 g = 0; g < keys / 16; g++) {
				float some = sum[g][half];
				some += shuffle_xor(some, 1);
				some += shuffle_xor(some, 2);
				all = g ? all + some : some;
			}
			Merge m(most_before, most[half]);
			float sum_now = m.of(sum_before, all);
			store(at, m.most), store(at + 4, sum_now);
			Target to(a, pairs, first + 8 * half, key, end);
			float factor = to.last ? 1 / sum_now : 1;
			u32 c = lane % 4 * 2, size = here(a.h.dim);
			UNROLL for (u32 i = 0; i < dim / 4; i++) {
				u32 column = c + i / 2 * 8 + i % 2;
				float x = m.of(to.before(column < size, column), mean[i / 2][2 * half + i % 2]) * factor;
				write_if((column < size) & to.there, to.mean + column, x);
			}
			to.sums(lane % 4 == 0, m.most, sum_now);
		});
		begin();
	}

	// run copies values while keys are used, and the next keys while values are. The copy of the first keys has begun.
	template <class F, class L>
	static MEMBER void run(u32 base, const Attention &a, const Pairs &pairs, u32 first, u32 to, F fetch, L look, const u16 *keys,
		const u16 *values) {
		Many e(base, a, pairs);
		ROLLED for (u32 key = first; key < to; key += Many::keys) {
			u32 after = key + Many::keys;
			wait<0>();
			barrier(); // keys have arrived, and the last values are no longer needed
			look(key);
			fetch(v, values, key);
			commit();
			e.scores(pairs, key);
			wait<0>();
			barrier(); // values have arrived, and the keys are no longer needed
			look(after);
			fetch(k, keys, after);
			commit();
			e.add();
			if (after % part == 0 || after >= to)
				e.end_part(a, pairs, key, after >= to);
		}
	}
};
