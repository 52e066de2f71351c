// Attention over keys and values in f32, in chains of fused multiply-adds.
//
// A tile has 16 pairs, or 32, and 32 keys; 8 threads share a pair, or one of each 16. A score is one chain over the head size, a sum
// of weighted values one over the keys of a part. A sum of weights is taken by thread over the blocks of a part, then over the
// 8 threads by a tree.
#include "attend.h"

template <u32 dim_, u32 tile_rows_> struct Chains {
	typedef float Number;
	static constexpr u32 dim = dim_, tile_rows = tile_rows_, keys = 32, threads = 128, thread_pairs = tile_rows / 16,
		pitch = dim + 4, p_pitch = keys + 4, thread_keys = keys / 8, thread_fours = dim / 32;
	// Addresses in shared memory, in bytes: queries, keys, values, weights.
	static constexpr u32 k = tile_rows * pitch * 4, v = k + keys * pitch * 4, p = v + keys * pitch * 4, bytes = p + tile_rows * p_pitch * 4;
	static_assert(bytes <= 99 << 10);

	u32 size; // of heads
	Scoring scoring;
	u32 base_, row_, slice_; // the first of the rows, 16 apart, of which a thread has elements, and its number among the 8 threads of the row
	u32 position[thread_pairs];
	float score[thread_pairs][thread_keys], max_score[thread_pairs], sum[thread_pairs], total_max[thread_pairs], total_sum[thread_pairs];
	Four weighted[thread_pairs][thread_fours]; // columns 4 · slice + 32 · j and the next 3

	MEMBER Chains(u32 base, const Attention &a, const Pairs &pairs)
		: size(a.heads.dim), scoring(a.scoring), base_(base), row_(thread() / 8), slice_(thread() % 8) {
		UNROLL for (u32 i = 0; i < thread_pairs; i++)
			position[i] = pairs.position(row_ + 16 * i), total_max[i] = lowest, total_sum[i] = 0;
		for_each_query<Chains>(a, pairs, [&](u32 r, u32 c, Four q) {
			UNROLL for (u32 n = 0; n < 4; n++)
				store(base + (r * pitch + c + n) * 4, q[n]);
		});
		reset();
	}

	template <class F, class L>
	static MEMBER void run(u32 base, const Attention &a, const Pairs &pairs, u32 first, u32 to, F fetch, L find_rows, const float *keys,
		const float *values) {
		attend_two_buffers<Chains>(base, a, pairs, first, to, fetch, find_rows, keys, values);
	}

	MEMBER void reset() {
		UNROLL for (u32 i = 0; i < thread_pairs; i++) {
			max_score[i] = lowest, sum[i] = 0;
			UNROLL for (u32 j = 0; j < thread_fours; j++)
				weighted[i][j] = 0;
		}
	}

	// scores computes the scores of the keys from position key on: a thread has every 8th.
	MEMBER void scores(u32 key, u32) {
		u32 base = opaque(base_), row = opaque(row_), slice = opaque(slice_);
		UNROLL for (u32 i = 0; i < thread_pairs; i++)
			UNROLL for (u32 j = 0; j < thread_keys; j++)
				score[i][j] = 0;
		u32 q = base + row * pitch * 4, at = base + k + slice * pitch * 4;
		ROLLED for (u32 from = 0; from < size; from += 8)
			UNROLL for (u32 d = from; d < from + 8; d += 4) {
				Four x[thread_pairs];
				UNROLL for (u32 i = 0; i < thread_pairs; i++)
					x[i] = load_shared_four(q + (i * 16 * pitch + d) * 4);
				UNROLL for (u32 j = 0; j < thread_keys; j++) {
					Four y = load_shared_four(at + (j * 8 * pitch + d) * 4);
					UNROLL for (u32 i = 0; i < thread_pairs; i++)
						UNROLL for (u32 n = 0; n < 4; n++)
							score[i][j] = fma(x[i][n], y[n], score[i][j]);
				}
			}
		UNROLL for (u32 i = 0; i < thread_pairs; i++)
			UNROLL for (u32 j = 0; j < thread_keys; j++)
				{
					float capped = materialised(scoring.capped(score[i][j]));
					score[i][j] = scoring.reads(position[i], key + slice + 8 * j) ? capped : lowest;
				}
	}

	MEMBER void weigh() {
		u32 base = opaque(base_), row = opaque(row_), slice = opaque(slice_);
		UNROLL for (u32 i = 0; i < thread_pairs; i++) {
			float block_max = max_score[i], before = block_max, some = 0;
			UNROLL for (u32 j = 0; j < thread_keys; j++)
				block_max = Greatest::of(block_max, score[i][j]);
			UNROLL for (int bits = 4; bits; bits /= 2)
				block_max = Greatest::of(block_max, shuffle_xor(block_max, bits));
			max_score[i] = block_max;
			UNROLL for (u32 j = 0; j < thread_keys; j++) {
				float weight = score[i][j] == lowest ? 0 : exponential(score[i][j] - block_max);
				store(base + p + ((row + 16 * i) * p_pitch + slice + 8 * j) * 4, weight);
				some += weight;
			}
			float shrink = exponential(before - block_max);
			sum[i] = fma(sum[i], shrink, some);
			UNROLL for (u32 j = 0; j < thread_fours; j++)
				weighted[i][j] *= shrink;
		}
	}

	// add adds weighted values.
	MEMBER void add(u32) {
		u32 base = opaque(base_), row = opaque(row_), slice = opaque(slice_);
		u32 weights = base + p + row * p_pitch * 4, at = base + v + slice * 16;
		ROLLED for (u32 key = 0; key < keys; key += 4) {
			Four x[thread_pairs];
			UNROLL for (u32 i = 0; i < thread_pairs; i++)
				x[i] = load_shared_four(weights + (i * 16 * p_pitch + key) * 4);
			UNROLL for (u32 n = 0; n < 4; n++)
				UNROLL for (u32 j = 0; j < thread_fours; j++) {
					Four y = load_shared_four(at + ((key + n) * pitch + 32 * j) * 4);
					UNROLL for (u32 i = 0; i < thread_pairs; i++)
						UNROLL for (u32 c = 0; c < 4; c++)
							weighted[i][j][c] = fma(x[i][n], y[c], weighted[i][j][c]);
				}
		}
	}

	// end_part adds a part to the parts before.
	MEMBER void end_part(const Attention &a, const Pairs &pairs, u32 key, bool end) {
		u32 row = opaque(row_);
		UNROLL for (u32 i = 0; i < thread_pairs; i++) {
			float all = sum[i];
			UNROLL for (int bits = 4; bits; bits /= 2)
				all += shuffle_xor(all, bits);
			Merge m(total_max[i], max_score[i]);
			total_max[i] = m.max_score, total_sum[i] = m.of(total_sum[i], all);
			write(Target(a, pairs, row + 16 * i, key, end), i, m, a);
		}
		reset();
	}

	MEMBER void write(const Target &to, u32 i, const Merge &m, const Attention &a) const {
		u32 slice = opaque(slice_);
		float factor = to.last ? 1 / total_sum[i] : 1;
		bool fours = aligned(a.out, a.parts) && a.heads.dim % 4 == 0;
		UNROLL for (u32 j = 0; j < thread_fours; j++) {
			u32 c = 4 * slice + 32 * j;
			Four x;
			UNROLL for (u32 n = 0; n < 4; n++)
				x[n] = m.of(to.before(c + n < a.heads.dim, c + n), weighted[i][j][n]) * factor;
			if (fours)
				write_if((c < a.heads.dim) & to.exists, to.weighted + c, x);
			else
				UNROLL for (u32 n = 0; n < 4; n++)
					write_if((c + n < a.heads.dim) & to.exists, to.weighted + c + n, x[n]);
		}
		to.sums(slice == 0, total_max[i], total_sum[i]);
	}
};

// The host has the same numbers, in attention.go.
#define ATTENTION(dim, tile_rows) \
	KERNEL THREADS(128) attention_f32_##tile_rows##x##dim(float *out, float *lse, float *parts, u32 count, const float *qkv, \
		const float *cache, const u32 *starts, const u32 *positions, const u32 *from, u32 n, u32 stride, u32 q, u32 kv, u32 size, \
		float scale, float cap, u32 window) { \
		attend<Chains<dim, tile_rows>>({out, lse, parts, count, qkv, {q, kv, size}, {scale, cap, window}}, cache, \
			{starts, positions, from, n, stride}); \
	}
ATTENTION(32, 32)
ATTENTION(64, 32)
ATTENTION(128, 32)
ATTENTION(256, 16)
