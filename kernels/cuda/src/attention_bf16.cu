// Attention over keys and values in bf16, on tensor cores. Queries, scaled, and weights are rounded to bf16, too; sums are f32.
//
// A tile has high pairs, 16 for each of down warps, and 64 keys. The scores of 16 pairs are shared by across warps, of which each has as
// many keys, and then as many columns of the values. A score is one chain over the head size in steps of 16, a mean one over the keys of
// a part in steps of 16. A sum of weights is taken by lane and 16 keys: over the blocks of a part, then over four lanes, then over the
// four 16 of a block.
#include "attention_many.h"

template <u32 dim_, u32 high_, u32 across_, u32 stages_> struct Tensor {
	typedef u16 Number;
	static constexpr u32 dim = dim_, high = high_, across = across_, stages = stages_, keys = 64, down = high / 16,
		threads = 32 * down * across, pitch = dim + 8, p_pitch = keys + 8, own = keys / across, columns = dim / across, groups = own / 16;
	// Addresses in shared memory, in bytes: queries, keys and values of each stage (or a ring of five buffers), weights, maximum scores by
	// warp, sums by 16 keys.
	static constexpr u32 k = high * pitch * 2, stage = keys * pitch * 2, v = stages == 5 ? k : k + stage, p = k + stages * stage,
		tops = p + high * p_pitch * 2, sums = tops + across * high * 4, bytes = sums + keys / 16 * high * 4;
	static_assert(own % 16 == 0 && columns % 16 == 0 && bytes <= 99 << 10);

	Scores f;
	u32 base_, row_, side_; // the first of the two rows of which a thread has elements, and the number of its warp among those across
	u32 position[2];
	float score[own / 8][4], mean[columns / 8][4];
	float most[2], shrink[2], sum[groups][2], whole_most[2], whole_sum[2];

	MEMBER Tensor(u32 base, const Attention &a, const Pairs &pairs) : f(a.f), base_(base) {
		u32 warp = thread() / 32, row = warp % down * 16 + lane() / 4;
		row_ = row, side_ = warp / down;
		UNROLL for (u32 half = 0; half < 2; half++)
			position[half] = pairs.position(row + 8 * half), whole_most[half] = lowest, whole_sum[half] = 0;
		each_query<Tensor>(a, pairs, [&](u32 r, u32 c, Four q) {
			store(base + (r * pitch + c) * 2, rounded(q[0], q[1]));
			store(base + (r * pitch + c) * 2 + 4, rounded(q[2], q[3]));
		});
		begin();
	}

	template <class F, class L>
	static MEMBER void run(u32 base, const Attention &a, const Pairs &pairs, u32 first, u32 to, F fetch, L look, const u16 *keys,
		const u16 *values) {
		if constexpr (stages == 5)
			attend_ring<Tensor>(base, a, pairs, first, to, fetch, look, keys, values);
		else
			attend_pair<Tensor>(base, a, pairs, first, to, fetch, look, keys, values);
	}

	MEMBER void begin() {
		UNROLL for (u32 half = 0; half < 2; half++) {
			most[half] = lowest;
			UNROLL for (u32 g = 0; g < groups; g++)
				sum[g][half] = 0;
		}
		UNROLL for (u32 j = 0; j < columns / 8; j++)
			UNROLL for (u32 n = 0; n < 4; n++)
				mean[j][n] = 0;
	}

	// scores computes the scores of the keys from position key on, and the maximum of each row among the warp's keys.
	MEMBER void scores(u32 key, u32 now) {
		u32 lane = thread_here() % 32, base = here(base_), row = here(row_), side = here(side_);
		u32 q = base + row / 16 * 16 * pitch * 2 + row_fragment_offset<pitch>(lane);
		u32 at = base + k + now + side * own * pitch * 2 + weight_fragment_offset<false, pitch>(lane);
		products<dim, own, pitch>(score, q, at);
		UNROLL for (u32 half = 0; half < 2; half++) {
			float top = lowest;
			UNROLL for (u32 j = 0; j < own / 8; j++)
				UNROLL for (u32 n = 0; n < 2; n++) {
					float &x = score[j][2 * half + n];
					float bent = materialised(f.bent(x));
					x = f.reads(position[half], key + side * own + j * 8 + lane % 4 * 2 + n) ? bent : lowest;
					top = x > top ? x : top;
				}
			top = Greatest::of(top, shuffle_xor(top, 1));
			top = Greatest::of(top, shuffle_xor(top, 2));
			if (lane % 4 == 0)
				store(base + tops + (side * high + row + 8 * half) * 4, top);
		}
	}

	// weigh turns scores into weights, and rescales the sums where the maximum score has grown.
	MEMBER void weigh() {
		u32 lane = thread_here() % 32, base = here(base_), row = here(row_), side = here(side_);
		UNROLL for (u32 half = 0; half < 2; half++) {
			float before = most[half];
			UNROLL for (u32 w = 0; w < across; w++)
				most[half] = Greatest::of(most[half], load(base + tops + (w * high + row + 8 * half) * 4));
			shrink[half] = exponential(before - most[half]);
			UNROLL for (u32 g = 0; g < groups; g++) {
				float weight[4];
				UNROLL for (u32 n = 0; n < 4; n++) {
					float x = score[2 * g + n / 2][2 * half + n % 2];
					weight[n] = x == lowest ? 0 : exponential(x - most[half]);
				}
				sum[g][half] = fma(sum[g][half], shrink[half], (weight[0] + weight[1]) + (weight[2] + weight[3]));
				u32 to = base + p + ((row + 8 * half) * p_pitch + side * own + g * 16 + lane % 4 * 2) * 2;
				store(to, rounded(weight[0], weight[1]));
				store(to + 16, rounded(weight[2], weight[3]));
			}
		}
		UNROLL for (u32 j = 0; j < columns / 8; j++)
			UNROLL for (u32 n = 0; n < 4; n++)
				mean[j][n] *= shrink[n / 2];
	}

	// add adds weighted values.
	MEMBER void add(u32 now) {
		u32 lane = thread_here() % 32, base = here(base_), row = here(row_), side = here(side_);
		u32 weights = base + p + row / 16 * 16 * p_pitch * 2 + row_fragment_offset<p_pitch>(lane);
		u32 at = base + v + now + side * columns * 2 + weight_fragment_offset<true, pitch>(lane);
		add_products<keys, columns, pitch>(mean, weights, at);
	}

	// end_part adds a part to the parts before.
	MEMBER void end_part(const Attention &a, const Pairs &pairs, u32 key, bool end) {
		u32 lane = thread_here() % 32, base = here(base_), row = here(row_), side = here(side_);
		UNROLL for (u32 half = 0; half < 2; half++)
			UNROLL for (u32 g = 0; g < groups; g++) {
				float all = sum[g][half];
				all += shuffle_xor(all, 1);
				all += shuffle_xor(all, 2);
				if (lane % 4 == 0)
					store(base + sums + ((side * groups + g) * high + row + 8 * half) * 4, all);
			}
		barrier();
		UNROLL for (u32 half = 0; half < 2; half++) {
			u32 i = row + 8 * half;
			float all = load(base + sums + i * 4);
			UNROLL for (u32 g = 1; g < keys / 16; g++)
				all += load(base + sums + (g * high + i) * 4);
			Merge m(whole_most[half], most[half]);
			whole_most[half] = m.most, whole_sum[half] = m.of(whole_sum[half], all);
			write(Target(a, pairs, i, key, end), half, m, a.h.dim);
		}
		begin();
	}

	MEMBER void write(const Target &to, u32 half, const Merge &m, u32 size) const {
		u32 lane = thread_here() % 32, side = here(side_);
		float factor = to.last ? 1 / whole_sum[half] : 1;
		UNROLL for (u32 j = 0; j < columns / 8; j++)
			UNROLL for (u32 n = 0; n < 2; n++) {
				u32 c = side * columns + j * 8 + lane % 4 * 2 + n;
				float x = m.of(to.before(c < size, c), mean[j][2 * half + n]) * factor;
				write_if((c < size) & to.there, to.mean + c, x);
			}
		to.sums((side == 0) & (lane % 4 == 0), whole_most[half], whole_sum[half]);
	}
};

// The host has the same numbers, in attention.go. Tiles of few pairs are for decoding, which waits for memory.
#define ATTENTION(dim, high, bounds, ...) \
	using T##high##x##dim = __VA_ARGS__; \
	KERNEL bounds attention_bf16_##high##x##dim(float *out, float *lse, float *parts, u32 count, \
		const float *qkv, const u16 *cache, const u32 *starts, const u32 *positions, const u32 *from, u32 n, u32 stride, u32 q, u32 kv, \
		u32 size, float scale, float cap, u32 window) { \
		attend<T##high##x##dim>({out, lse, parts, count, qkv, {q, kv, size}, {scale, cap, window}}, cache, \
			{starts, positions, from, n, stride}); \
	}
#define TENSOR(dim, high, across, stages) ATTENTION(dim, high, THREADS((T##high##x##dim::threads)), Tensor<dim, high, across, stages>)
#define MANY(dim, high, blocks) ATTENTION(dim, high, BLOCKS((T##high##x##dim::threads), blocks), Many<dim, high / 16>)
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
	u32 position = positions[at / q], n = position / part + 1, i = Scores{1, 0, window}.first(position) / part;
	const float *all = parts + at * count * (4 + dim);
	constexpr u32 columns = 256 / 32; // of a lane, at most
	struct Part {
		float most, sum, mean[columns];
		MEMBER Part() : most(lowest), sum(0), mean() {}
		MEMBER void read(const float *from, u32 dim) {
			most = from[0], sum = from[1];
			UNROLL for (u32 k = 0; k < columns; k++)
				mean[k] = read_if(lane() + 32 * k < dim, from + 4 + lane() + 32 * k);
		}
	} whole, next, now;
	next.read(all + i * (4 + dim), dim);
	ROLLED for (; i < n; i++) {
		now = next;
		if (i + 1 < n) // is loaded while this one is added
			next.read(all + (i + 1) * (4 + dim), dim);
		Merge m(whole.most, now.most);
		whole.most = m.most, whole.sum = m.of(whole.sum, now.sum);
		UNROLL for (u32 k = 0; k < columns; k++)
			whole.mean[k] = m.of(whole.mean[k], now.mean[k]);
	}
	float inverse = 1 / whole.sum;
	UNROLL for (u32 k = 0; k < columns; k++)
		write_if(lane() + 32 * k < dim, out + at * dim + lane() + 32 * k, whole.mean[k] * inverse);
}
