// The gradient of attention over keys and values in f32: chains of fused multiply-adds over read_rows rows, each from zero, added in
// ascending order. A key can be read by thousands of rows, over which a single chain would lose too much to rounding.
#include "attention_grad.h"

// A tile has 16 own rows (X' and Y'), by 8 threads each, and reads read_rows rows (X and Y) at a time.
template <bool keys_, u32 dim_> struct Chains {
	typedef float Number;
	static constexpr bool keys = keys_;
	static constexpr u32 dim = dim_, tile_rows = 16, read_rows = dim == 256 ? 16 : 32, first_multiple = read_rows, stages = 1,
		thread_rows = 1, threads = 128, pitch = dim + 4, p_pitch = read_rows + 4,
		thread_read_rows = read_rows / 8, thread_fours = dim / 32;
	// Addresses in shared memory, in bytes: X' at 0, Y', X, Y, s, p, and lse, delta and positions of the rows read.
	static constexpr u32 own_y = tile_rows * pitch * 4, x = 2 * own_y, y = x + read_rows * pitch * 4, s = y + read_rows * pitch * 4,
		p = s + tile_rows * p_pitch * 4, sums = p + tile_rows * p_pitch * 4,
		bytes = keys ? sums + (2 * read_rows + position_slots(read_rows)) * 4 : p;
	static_assert(bytes <= 99 << 10 && threads >= 2 * read_rows);
	typedef Four Sums[thread_fours];

	u32 size; // of heads
	Scoring scoring;
	u32 base_, row_, slice_;
	// The last position that a query reads; or the first pair that reads a key, and the position from which none does.
	u32 limit[1], end_position[1];
	float lse[1], delta[1];
	Sums sum_x, sum_y; // columns 4 · slice + 32 · j and the next 3

	MEMBER Chains(u32 base, u32 size, const Scoring &scoring)
		: size(size), scoring(scoring), base_(base), row_(thread() / 8), slice_(thread() % 8) {
		UNROLL for (u32 j = 0; j < thread_fours; j++)
			sum_x[j] = sum_y[j] = 0;
	}
	MEMBER void ready() const {}
	MEMBER u32 row(u32) const { return row_; }

	// product multiplies one own row by the thread's part of the rows read, every 8th.
	MEMBER void product(float *out, u32 own, u32 read) const {
		UNROLL for (u32 j = 0; j < thread_read_rows; j++)
			out[j] = 0;
		ROLLED for (u32 from = 0; from < size; from += 8)
			UNROLL for (u32 d = from; d < from + 8; d += 4) {
				Four a = load_shared_four(own + d * 4);
				UNROLL for (u32 j = 0; j < thread_read_rows; j++) {
					Four b = load_shared_four(read + (j * 8 * pitch + d) * 4);
					UNROLL for (u32 n = 0; n < 4; n++)
						out[j] = fma(a[n], b[n], out[j]);
				}
			}
	}

	// slopes writes s, and for keys p, of the rows read from `at` on.
	MEMBER void slopes(u32 at, u32 end) {
		u32 base = opaque(base_), row = opaque(row_), slice = opaque(slice_);
		float score[thread_read_rows], value_dot[thread_read_rows];
		product(score, base + row * pitch * 4, base + x + slice * pitch * 4);
		product(value_dot, base + own_y + row * pitch * 4, base + y + slice * pitch * 4);
		UNROLL for (u32 j = 0; j < thread_read_rows; j++) {
			u32 column = slice + 8 * j, i = at + column;
			bool reads;
			float l = lse[0], d = delta[0];
			if constexpr (keys) {
				l = load(base + sums + column * 4), d = load(base + sums + (read_rows + column) * 4);
				u32 position = __builtin_bit_cast(u32, load(base + sums + (2 * read_rows + column) * 4));
				reads = (i >= limit[0]) & (i < end) & (position < end_position[0]);
			} else {
				reads = scoring.reads(limit[0], i);
			}
			float capped = scoring.capped(score[j]), e = exponential(capped - l);
			float change = materialised(scoring.slope(capped) * e * (value_dot[j] - d));
			u32 to = base + s + (row * p_pitch + column) * 4;
			store(to, reads ? change : 0);
			if (keys)
				store(to + (p - s), reads ? e : 0);
		}
	}

	// add adds s · X, and for keys p · Y.
	MEMBER void add() {
		u32 base = opaque(base_), row = opaque(row_), slice = opaque(slice_);
		u32 factors = base + s + row * p_pitch * 4, read = base + x + slice * 16;
		add_product(sum_x, factors, read);
		if (keys)
			add_product(sum_y, factors + (p - s), read + (y - x));
	}
	static MEMBER void add_product(Sums &to, u32 factors, u32 read) {
		UNROLL for (u32 j = 0; j < thread_fours; j++) {
			Four sum = 0;
			ROLLED for (u32 i = 0; i < read_rows; i += 4) {
				Four a = load_shared_four(factors + i * 4);
				UNROLL for (u32 n = 0; n < 4; n++) {
					Four b = load_shared_four(read + ((i + n) * pitch + 32 * j) * 4);
					UNROLL for (u32 c = 0; c < 4; c++)
						sum[c] = fma(a[n], b[c], sum[c]);
				}
			}
			to[j] += sum;
		}
	}

	MEMBER void write(float *to, u32, u32 size, float factor, const Sums &of) const {
		bool fours = aligned(to) && size % 4 == 0;
		u32 c = 4 * opaque(slice_);
		UNROLL for (u32 j = 0; j < thread_fours; j++)
			store_four(to, c + 32 * j, size, fours, of[j] * factor);
	}
};

GRAD_PACK(f32, float)

// The host has the same numbers, in attention.go.
#define CHAINS(dim) \
	using Queries##dim = Chains<false, dim>; \
	using Keys##dim = Chains<true, dim>; \
	GRAD(queries, f32, Queries##dim, dim, 16, 1) \
	GRAD(keys, f32, Keys##dim, dim, 16, 1)
CHAINS(32)
CHAINS(64)
CHAINS(128)
CHAINS(256)
