// Attention over keys and values in f32, in chains of fused multiply-adds.
//
// A tile has 16 pairs, or 32, and 32 keys; 8 threads share a pair, or one of each 16. A score is one chain over the head size, a mean one
// over the keys of a part. A sum of weights is taken by thread over the blocks of a part, then over the 8 threads by a tree.
#include "attend.h"

template <u32 dim_, u32 high_> struct Chains {
	typedef float Number;
	static constexpr u32 dim = dim_, high = high_, keys = 32, threads = 128, tall = high / 16, pitch = dim + 4, p_pitch = keys + 4,
		own = keys / 8, wide = dim / 32;
	// Addresses in shared memory, in bytes: queries, keys, values, weights.
	static constexpr u32 k = high * pitch * 4, v = k + keys * pitch * 4, p = v + keys * pitch * 4, bytes = p + high * p_pitch * 4;
	static_assert(bytes <= 99 << 10);

	u32 size; // of heads
	Scores f;
	u32 base_, row_, side_; // the first of the rows, 16 apart, of which a thread has elements, and its number among the 8 threads of the row
	u32 position[tall];
	float score[tall][own], most[tall], sum[tall], whole_most[tall], whole_sum[tall];
	Four mean[tall][wide]; // columns 4 · side + 32 · j and the next 3

	MEMBER Chains(u32 base, const Attention &a, const Pairs &pairs)
		: size(a.h.dim), f(a.f), base_(base), row_(thread() / 8), side_(thread() % 8) {
		UNROLL for (u32 i = 0; i < tall; i++)
			position[i] = pairs.position(row_ + 16 * i), whole_most[i] = lowest, whole_sum[i] = 0;
		each_query<Chains>(a, pairs, [&](u32 r, u32 c, Four q) {
			UNROLL for (u32 n = 0; n < 4; n++)
				store(base + (r * pitch + c + n) * 4, q[n]);
		});
		begin();
	}

	template <class F, class L>
	static MEMBER void run(u32 base, const Attention &a, const Pairs &pairs, u32 first, u32 to, F fetch, L look, const float *keys,
		const float *values) {
		attend_pair<Chains>(base, a, pairs, first, to, fetch, look, keys, values);
	}

	MEMBER void begin() {
		UNROLL for (u32 i = 0; i < tall; i++) {
			most[i] = lowest, sum[i] = 0;
			UNROLL for (u32 j = 0; j < wide; j++)
				mean[i][j] = 0;
		}
	}

	// scores computes the scores of the keys from position key on: a thread has every 8th.
	MEMBER void scores(u32 key, u32) {
		u32 base = here(base_), row = here(row_), side = here(side_);
		UNROLL for (u32 i = 0; i < tall; i++)
			UNROLL for (u32 j = 0; j < own; j++)
				score[i][j] = 0;
		u32 q = base + row * pitch * 4, at = base + k + side * pitch * 4;
		ROLLED for (u32 from = 0; from < size; from += 8)
			UNROLL for (u32 d = from; d < from + 8; d += 4) {
				Four x[tall];
				UNROLL for (u32 i = 0; i < tall; i++)
					x[i] = load_shared_four(q + (i * 16 * pitch + d) * 4);
				UNROLL for (u32 j = 0; j < own; j++) {
					Four y = load_shared_four(at + (j * 8 * pitch + d) * 4);
					UNROLL for (u32 i = 0; i < tall; i++)
						UNROLL for (u32 n = 0; n < 4; n++)
							score[i][j] = fma(x[i][n], y[n], score[i][j]);
				}
			}
		UNROLL for (u32 i = 0; i < tall; i++)
			UNROLL for (u32 j = 0; j < own; j++)
				{
					float bent = materialised(f.bent(score[i][j]));
					score[i][j] = f.reads(position[i], key + side + 8 * j) ? bent : lowest;
				}
	}

	MEMBER void weigh() {
		u32 base = here(base_), row = here(row_), side = here(side_);
		UNROLL for (u32 i = 0; i < tall; i++) {
			float top = most[i], before = top, some = 0;
			UNROLL for (u32 j = 0; j < own; j++)
				top = Greatest::of(top, score[i][j]);
			UNROLL for (int bits = 4; bits; bits /= 2)
				top = Greatest::of(top, shuffle_xor(top, bits));
			most[i] = top;
			UNROLL for (u32 j = 0; j < own; j++) {
				float weight = score[i][j] == lowest ? 0 : exponential(score[i][j] - top);
				store(base + p + ((row + 16 * i) * p_pitch + side + 8 * j) * 4, weight);
				some += weight;
			}
			float shrink = exponential(before - top);
			sum[i] = fma(sum[i], shrink, some);
			UNROLL for (u32 j = 0; j < wide; j++)
				mean[i][j] *= shrink;
		}
	}

	// add adds weighted values.
	MEMBER void add(u32) {
		u32 base = here(base_), row = here(row_), side = here(side_);
		u32 weights = base + p + row * p_pitch * 4, at = base + v + side * 16;
		ROLLED for (u32 key = 0; key < keys; key += 4) {
			Four x[tall];
			UNROLL for (u32 i = 0; i < tall; i++)
				x[i] = load_shared_four(weights + (i * 16 * p_pitch + key) * 4);
			UNROLL for (u32 n = 0; n < 4; n++)
				UNROLL for (u32 j = 0; j < wide; j++) {
					Four y = load_shared_four(at + ((key + n) * pitch + 32 * j) * 4);
					UNROLL for (u32 i = 0; i < tall; i++)
						UNROLL for (u32 c = 0; c < 4; c++)
							mean[i][j][c] = fma(x[i][n], y[c], mean[i][j][c]);
				}
		}
	}

	// end_part adds a part to the parts before.
	MEMBER void end_part(const Attention &a, const Pairs &pairs, u32 key, bool end) {
		u32 row = here(row_);
		UNROLL for (u32 i = 0; i < tall; i++) {
			float all = sum[i];
			UNROLL for (int bits = 4; bits; bits /= 2)
				all += shuffle_xor(all, bits);
			Merge m(whole_most[i], most[i]);
			whole_most[i] = m.most, whole_sum[i] = m.of(whole_sum[i], all);
			write(Target(a, pairs, row + 16 * i, key, end), i, m, a);
		}
		begin();
	}

	MEMBER void write(const Target &to, u32 i, const Merge &m, const Attention &a) const {
		u32 side = here(side_);
		float factor = to.last ? 1 / whole_sum[i] : 1;
		bool fours = aligned(a.out, a.parts) && a.h.dim % 4 == 0;
		UNROLL for (u32 j = 0; j < wide; j++) {
			u32 c = 4 * side + 32 * j;
			Four x;
			UNROLL for (u32 n = 0; n < 4; n++)
				x[n] = m.of(to.before(c + n < a.h.dim, c + n), mean[i][j][n]) * factor;
			if (fours)
				write_if((c < a.h.dim) & to.there, to.mean + c, x);
			else
				UNROLL for (u32 n = 0; n < 4; n++)
					write_if((c + n < a.h.dim) & to.there, to.mean + c + n, x[n]);
		}
		to.sums(side == 0, whole_most[i], whole_sum[i]);
	}
};

// The host has the same numbers, in attention.go.
#define ATTENTION(dim, high) \
	KERNEL THREADS(128) attention_f32_##high##x##dim(float *out, float *lse, float *parts, u32 count, const float *qkv, const float *cache, \
		const u32 *starts, const u32 *positions, const u32 *from, u32 n, u32 stride, u32 q, u32 kv, u32 size, float scale, float cap, \
		u32 window) { \
		attend<Chains<dim, high>>({out, lse, parts, count, qkv, {q, kv, size}, {scale, cap, window}}, cache, \
			{starts, positions, from, n, stride}); \
	}
ATTENTION(32, 32)
ATTENTION(64, 32)
ATTENTION(128, 32)
ATTENTION(256, 16)
