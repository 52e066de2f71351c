// Attention over keys and values in bf16, on tensor cores. Queries, scaled, and weights are rounded to bf16, too; sums are f32.
//
// A tile has tile_rows pairs and 64 keys. The scores of 16 pairs are shared by warps_across warps: each has an equal share of the keys,
// and then of the columns of the values. A score is one chain over the head size in steps of 16; a sum of weighted values is one chain
// over the keys of a part in steps of 16. A sum of weights is taken by lane and 16 keys: over the blocks of a part, then over four lanes,
// then over the four groups of 16 keys of a block.
#include "attention_many.h"

template <u32 dim_, u32 tile_rows_, u32 warps_across_, u32 stages_> struct Tensor {
	typedef u16 Number;
	static constexpr u32 dim = dim_, tile_rows = tile_rows_, warps_across = warps_across_, stages = stages_, keys = 64,
		warps_down = tile_rows / 16, threads = 32 * warps_down * warps_across, pitch = dim + 8, p_pitch = keys + 8,
		warp_keys = keys / warps_across, warp_columns = dim / warps_across, groups = warp_keys / 16;
	// Addresses in shared memory, in bytes: queries, keys and values of each stage (or a ring of five buffers), weights, maximum scores by
	// warp, sums by 16 keys.
	static constexpr u32 k = tile_rows * pitch * 2, stage = keys * pitch * 2, v = stages == 5 ? k : k + stage, p = k + stages * stage,
		row_maxima = p + tile_rows * p_pitch * 2, sums = row_maxima + warps_across * tile_rows * 4, bytes = sums + keys / 16 * tile_rows * 4;
	static_assert(warp_keys % 16 == 0 && warp_columns % 16 == 0 && bytes <= 99 << 10);

	Scoring scoring;
	// row_ is the first of the two rows of which a thread has elements, slice_ the slice of keys and of columns that its warp has.
	u32 base_, row_, slice_;
	u32 position[2];
	float score[warp_keys / 8][4], weighted[warp_columns / 8][4];
	float max_score[2], shrink[2], sum[groups][2], total_max[2], total_sum[2];

	MEMBER Tensor(u32 base, const Attention &a, const Pairs &pairs) : scoring(a.scoring), base_(base) {
		u32 warp = thread() / 32, row = warp % warps_down * 16 + lane() / 4;
		row_ = row, slice_ = warp / warps_down;
		UNROLL for (u32 half = 0; half < 2; half++)
			position[half] = pairs.position(row + 8 * half), total_max[half] = lowest, total_sum[half] = 0;
		for_each_query<Tensor>(a, pairs, [&](u32 r, u32 c, Four q) {
			store(base + (r * pitch + c) * 2, rounded(q[0], q[1]));
			store(base + (r * pitch + c) * 2 + 4, rounded(q[2], q[3]));
		});
		reset();
	}

	template <class F, class L>
	static MEMBER void run(u32 base, const Attention &a, const Pairs &pairs, u32 first, u32 to, F fetch, L find_rows, const u16 *keys,
		const u16 *values) {
		if constexpr (stages == 5)
			attend_ring<Tensor>(base, a, pairs, first, to, fetch, find_rows, keys, values);
		else
			attend_two_buffers<Tensor>(base, a, pairs, first, to, fetch, find_rows, keys, values);
	}

	MEMBER void reset() {
		UNROLL for (u32 half = 0; half < 2; half++) {
			max_score[half] = lowest;
			UNROLL for (u32 g = 0; g < groups; g++)
				sum[g][half] = 0;
		}
		UNROLL for (u32 j = 0; j < warp_columns / 8; j++)
			UNROLL for (u32 n = 0; n < 4; n++)
				weighted[j][n] = 0;
	}

	// scores computes the scores of the keys from position key on, and the maximum of each row among the warp's keys.
	MEMBER void scores(u32 key, u32 now) {
		u32 lane = thread_here() % 32, base = opaque(base_), row = opaque(row_), slice = opaque(slice_);
		u32 q = base + row / 16 * 16 * pitch * 2 + row_fragment_offset<pitch>(lane);
		u32 at = base + k + now + slice * warp_keys * pitch * 2 + weight_fragment_offset<false, pitch>(lane);
		products<dim, warp_keys, pitch>(score, q, at);
		UNROLL for (u32 half = 0; half < 2; half++) {
			float block_max = lowest;
			UNROLL for (u32 j = 0; j < warp_keys / 8; j++)
				UNROLL for (u32 n = 0; n < 2; n++) {
					float &x = score[j][2 * half + n];
					float capped = materialised(scoring.capped(x));
					x = scoring.reads(position[half], key + slice * warp_keys + j * 8 + lane % 4 * 2 + n) ? capped : lowest;
					block_max = x > block_max ? x : block_max;
				}
			block_max = Greatest::of(block_max, shuffle_xor(block_max, 1));
			block_max = Greatest::of(block_max, shuffle_xor(block_max, 2));
			if (lane % 4 == 0)
				store(base + row_maxima + (slice * tile_rows + row + 8 * half) * 4, block_max);
		}
	}

	// weigh turns scores into weights, and rescales the sums where the maximum score has grown.
	MEMBER void weigh() {
		u32 lane = thread_here() % 32, base = opaque(base_), row = opaque(row_), slice = opaque(slice_);
		UNROLL for (u32 half = 0; half < 2; half++) {
			float before = max_score[half];
			UNROLL for (u32 w = 0; w < warps_across; w++)
				max_score[half] = Greatest::of(max_score[half], load(base + row_maxima + (w * tile_rows + row + 8 * half) * 4));
			shrink[half] = exponential(before - max_score[half]);
			UNROLL for (u32 g = 0; g < groups; g++) {
				float weight[4];
				UNROLL for (u32 n = 0; n < 4; n++) {
					float x = score[2 * g + n / 2][2 * half + n % 2];
					weight[n] = x == lowest ? 0 : exponential(x - max_score[half]);
				}
				sum[g][half] = fma(sum[g][half], shrink[half], (weight[0] + weight[1]) + (weight[2] + weight[3]));
				u32 to = base + p + ((row + 8 * half) * p_pitch + slice * warp_keys + g * 16 + lane % 4 * 2) * 2;
				store(to, rounded(weight[0], weight[1]));
				store(to + 16, rounded(weight[2], weight[3]));
			}
		}
		UNROLL for (u32 j = 0; j < warp_columns / 8; j++)
			UNROLL for (u32 n = 0; n < 4; n++)
				weighted[j][n] *= shrink[n / 2];
	}

	// add adds weighted values.
	MEMBER void add(u32 now) {
		u32 lane = thread_here() % 32, base = opaque(base_), row = opaque(row_), slice = opaque(slice_);
		u32 weights = base + p + row / 16 * 16 * p_pitch * 2 + row_fragment_offset<p_pitch>(lane);
		u32 at = base + v + now + slice * warp_columns * 2 + weight_fragment_offset<true, pitch>(lane);
		add_products<keys, warp_columns, pitch>(weighted, weights, at);
	}

	// end_part adds a part to the parts before.
	MEMBER void end_part(const Attention &a, const Pairs &pairs, u32 key, bool end) {
		u32 lane = thread_here() % 32, base = opaque(base_), row = opaque(row_), slice = opaque(slice_);
		UNROLL for (u32 half = 0; half < 2; half++)
			UNROLL for (u32 g = 0; g < groups; g++) {
				float all = sum[g][half];
				all += shuffle_xor(all, 1);
				all += shuffle_xor(all, 2);
				if (lane % 4 == 0)
					store(base + sums + ((slice * groups + g) * tile_rows + row + 8 * half) * 4, all);
			}
		barrier();
		UNROLL for (u32 half = 0; half < 2; half++) {
			u32 i = row + 8 * half;
			float all = load(base + sums + i * 4);
			UNROLL for (u32 g = 1; g < keys / 16; g++)
				all += load(base + sums + (g * tile_rows + i) * 4);
			Merge m(total_max[half], max_score[half]);
			total_max[half] = m.max_score, total_sum[half] = m.of(total_sum[half], all);
			write(Target(a, pairs, i, key, end), half, m, a.heads.dim);
		}
		reset();
	}

	MEMBER void write(const Target &to, u32 half, const Merge &m, u32 size) const {
		u32 lane = thread_here() % 32, slice = opaque(slice_);
		float factor = to.last ? 1 / total_sum[half] : 1;
		UNROLL for (u32 j = 0; j < warp_columns / 8; j++)
			UNROLL for (u32 n = 0; n < 2; n++) {
				u32 c = slice * warp_columns + j * 8 + lane % 4 * 2 + n;
				float x = m.of(to.before(c < size, c), weighted[j][2 * half + n]) * factor;
				write_if((c < size) & to.exists, to.weighted + c, x);
			}
		to.sums((slice == 0) & (lane % 4 == 0), total_max[half], total_sum[half]);
	}
};

// The host has the same numbers, in attention.go. Tiles of few pairs are for decoding, which waits for memory.
#define ATTENTION(dim, tile_rows, bounds, ...) \
	using T##tile_rows##x##dim = __VA_ARGS__; \
	KERNEL bounds attention_bf16_##tile_rows##x##dim(float *out, float *lse, float *parts, u32 count, \
		const float *qkv, const u16 *cache, const u32 *starts, const u32 *positions, const u32 *from, u32 n, u32 stride, u32 q, u32 kv, \
		u32 size, float scale, float cap, u32 window) { \
		attend<T##tile_rows##x##dim>({out, lse, parts, count, qkv, {q, kv, size}, {scale, cap, window}}, cache, \
			{starts, positions, from, n, stride}); \
	}
#define TENSOR(dim, tile_rows, across, stages) \
	ATTENTION(dim, tile_rows, THREADS((T##tile_rows##x##dim::threads)), Tensor<dim, tile_rows, across, stages>)
#define MANY(dim, tile_rows, blocks) ATTENTION(dim, tile_rows, BLOCKS((T##tile_rows##x##dim::threads), blocks), Many<dim, tile_rows / 16>)
MANY(32, 64, 3)
MANY(64, 64, 3)
MANY(128, 64, 3)
TENSOR(256, 32, 4, 2)
TENSOR(32, 16, 2, 5)
TENSOR(64, 16, 4, 5)
TENSOR(128, 16, 4, 5)
TENSOR(256, 16, 4, 2)

// attention_merge merges the parts of a row and query head (warp), in ascending order.
KERNEL THREADS(256) attention_merge(float *out, const float *parts, const u32 *positions, u32 q, u32 dim, u32 count, u32 T,
	u32 window) {
	u64 at = (u64)block_x() * 8 + thread() / 32;
	if (at >= (u64)T * q)
		return;
	u32 position = positions[at / q], n = position / part + 1, i = Scoring{1, 0, window}.first(position) / part;
	const float *all = parts + at * count * (4 + dim);
	constexpr u32 columns = 256 / 32; // of a lane, at most
	struct Part {
		float max_score, sum, weighted[columns];
		MEMBER Part() : max_score(lowest), sum(0), weighted() {}
		MEMBER void read(const float *from, u32 dim) {
			max_score = from[0], sum = from[1];
			UNROLL for (u32 k = 0; k < columns; k++)
				weighted[k] = read_if(lane() + 32 * k < dim, from + 4 + lane() + 32 * k);
		}
	} whole, next, now;
	next.read(all + i * (4 + dim), dim);
	ROLLED for (; i < n; i++) {
		now = next;
		if (i + 1 < n) // is loaded while this one is added
			next.read(all + (i + 1) * (4 + dim), dim);
		Merge m(whole.max_score, now.max_score);
		whole.max_score = m.max_score, whole.sum = m.of(whole.sum, now.sum);
		UNROLL for (u32 k = 0; k < columns; k++)
			whole.weighted[k] = m.of(whole.weighted[k], now.weighted[k]);
	}
	float inverse = 1 / whole.sum;
	UNROLL for (u32 k = 0; k < columns; k++)
		write_if(lane() + 32 * k < dim, out + at * dim + lane() + 32 * k, whole.weighted[k] * inverse);
}
