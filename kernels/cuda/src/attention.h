// Causal attention by an online softmax over blocks of keys, for attention_bf16.cu and attention_f32.cu.
//
// Keys and values come from rows of a cache (KV heads of keys | KV heads of values), heads padded_dim numbers apart: the head
// size, rounded up to a multiple of 8. Packed rows have a cache of their own, in which row t of the batch is row t.
//
// Blocks of keys begin at multiples of their size, counted from the sequence's start; so do parts of 1,024 positions, of which each has
// a softmax of its own, and which are merged in ascending order. A row's results depend only on its query and on the keys up to itself:
// masked positions add exactly nothing. Neither the other rows of the tile, nor its height, nor whether a block computes all parts or
// one, changes a bit.
#pragma once
#include "kernel.h"
#undef KERNEL // replaced by that of linear.h, which leaves the number of threads to the kernel
#include "linear_tensor.h"

DEVICE u32 block_z() { return __nvvm_read_ptx_sreg_ctaid_z(); }

DEVICE void store(u32 to, float x) { asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory"); }
DEVICE void store(u32 to, u32 x) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(x) : "memory"); }
DEVICE float load(u32 from) {
	float x;
	asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
	return x;
}

DEVICE Four load_shared_four(u32 from) {
	float x, y, z, w;
	asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "r"(from) : "memory");
	return Four{x, y, z, w};
}

// Four numbers of a cache at a time.
DEVICE void store_four(float *to, Four x) { *(Four *)to = x; }
DEVICE void store_four(u16 *to, Four x) { *(u64 *)to = (u64)rounded(x[2], x[3]) << 32 | rounded(x[0], x[1]); }

// The address of a lane's row in the four matrices of a fragment of 16 rows and 16 columns.
template <u32 pitch> DEVICE u32 row_fragment_offset(u32 lane) { return (lane % 16 * pitch + lane / 16 * 8) * 2; }

// products computes the dot products of 16 rows with `rows` others, all of dim numbers: each element of out has 8 of the others.
template <u32 dim, u32 rows, u32 pitch> DEVICE void products(float (*out)[4], u32 own, u32 others) {
	UNROLL for (u32 j = 0; j < rows / 8; j++)
		UNROLL for (u32 n = 0; n < 4; n++)
			out[j][n] = 0;
	UNROLL for (u32 d = 0; d < dim; d += 16) {
		u32 a[4], b[4];
		load_matrices(a, own + d * 2);
		UNROLL for (u32 j = 0; j < rows / 8; j += 2) {
			load_matrices(b, others + (j * 8 * pitch + d) * 2);
			multiply(out[j], a, b);
			multiply(out[j + 1], a, b + 2);
		}
	}
}

// add_products multiplies 16 rows of 16 factors by 16 rows of columns, and adds to sums, each element of which has 8 columns.
template <u32 columns> DEVICE void add_products(float (*sums)[4], const u32 *factors, u32 rows) {
	UNROLL for (u32 j = 0; j < columns / 8; j += 2) {
		u32 b[4];
		load_transposed(b, rows + j * 16);
		multiply(sums[j], factors, b);
		multiply(sums[j + 1], factors, b + 2);
	}
}

// The same for `deep` factors in shared memory.
template <u32 deep, u32 columns, u32 pitch> DEVICE void add_products(float (*sums)[4], u32 factors, u32 rows) {
	UNROLL for (u32 i = 0; i < deep; i += 16) {
		u32 a[4];
		load_matrices(a, factors + i * 2);
		add_products<columns>(sums, a, rows + i * pitch * 2);
	}
}

// The blocks of a tile, one for each key-value head, have consecutive numbers. The last rows of long sequences, which read most, come
// first.
DEVICE u32 head_of_block(u32 heads) { return block_x() % heads; }
DEVICE u32 tile_of_block(u32 heads) { return __nvvm_read_ptx_sreg_nctaid_x() / heads - 1 - block_x() / heads; }

// opaque hides from the compiler that x is unchanged: values computed from it are recomputed where they are needed, not kept in registers.
DEVICE u32 opaque(u32 x) {
	asm volatile("" : "+r"(x));
	return x;
}

// A load from global memory by some lanes of a warp, without a branch, so that all reach the next barrier together. The other lanes get
// 0.
DEVICE float read_if(bool yes, const float *from) {
	float x;
	asm volatile("{ .reg .pred %%p0; setp.ne.u32 %%p0, %2, 0; mov.f32 %0, 0f00000000; @%%p0 ld.global.f32 %0, [%1]; }"
		: "=&f"(x) : "l"(from), "r"((u32)yes) : "memory");
	return x;
}
DEVICE void write_if(bool yes, float *to, float x) {
	asm volatile("{ .reg .pred %%p0; setp.ne.u32 %%p0, %2, 0; @%%p0 st.global.f32 [%0], %1; }"
		::"l"(to), "f"(x), "r"((u32)yes) : "memory");
}
DEVICE void write_if(bool yes, float *to, Four x) {
	asm volatile("{ .reg .pred %%p0; setp.ne.u32 %%p0, %5, 0; @%%p0 st.global.v4.f32 [%0], {%1,%2,%3,%4}; }"
		::"l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "r"((u32)yes) : "memory");
}

// Less than every score, and finite, so that lowest − lowest is 0.
constexpr float lowest = -0x1p127f;

// The natural logarithm for x >= 2^-126: x is m · 2^n with m near 1, and log m is the series of 2 · artanh((m − 1) / (m + 1)).
DEVICE float logarithm(float x) {
	int bits = __builtin_bit_cast(int, x), n = (bits - 0x3f3504f3) >> 23;
	float f = __builtin_bit_cast(float, bits - (n << 23)) - 1, s = f / (2 + f), z = s * s;
	float series = z * fma(z, fma(z, fma(z, fma(z, 2.0f / 11, 2.0f / 9), 2.0f / 7), 2.0f / 5), 2.0f / 3);
	float half = 0.5f * f * f; // log m = f − (f²/2 − s · (f²/2 + series))
	float rest = fma(s, half + series, (float)n * -0x1.05c610p-29f) - half;
	float log = fma((float)n, 0x1.62e430p-1f, f + rest);
	return x < __builtin_inff() ? (x > 0 ? log : -__builtin_inff()) : x;
}

struct Heads {
	u32 q, kv, dim;
	MEMBER u32 group() const { return q / kv; }
	MEMBER u32 padded_dim() const { return (dim + 7) / 8 * 8; }
	MEMBER u32 width() const { return (q + 2 * kv) * dim; }
	MEMBER u64 stride() const { return (u64)2 * kv * padded_dim(); } // of rows of a cache
};

// Scoring says how scores are scaled and capped, and which of them a row reads.
struct Scoring {
	float scale, cap;
	u32 window; // positions that a row reads, its own included

	MEMBER float capped(float score) const { return cap != 0 ? hyperbolic_tangent(score / cap) * cap : score; }
	// slope is the derivative of a capped score with respect to the score.
	MEMBER float slope(float capped) const {
		float t = capped / cap;
		return cap != 0 ? 1 - t * t : 1;
	}
	MEMBER u32 first(u32 position) const { return position < window ? 0 : position - window + 1; }
	MEMBER bool reads(u32 position, u32 key) const { return (key <= position) & (position - key < window); }
};

// Positions in a block of a cache.
constexpr u32 cache_block = 32;

// Rows of a batch: span s is rows [starts[s], starts[s+1]). In a packed batch, positions is null, and a span continues span from[s] after
// its end, unless that is negative or from is null. In a paged one, the row of position p is in block from[s · stride + p / cache_block].
struct Batch {
	const u32 *starts, *positions, *from;
	u32 n, stride;
};

// A span, and the path to the spans that it continues.
struct Span {
	const Batch &batch;
	u32 span, row, rows, first; // its first row, how many it has, the position of its first row

	MEMBER Span(const Batch &batch, u32 span) : batch(batch), span(span) {
		row = batch.starts[span], rows = batch.starts[span + 1] - row, first = 0;
		if (batch.positions) {
			if (rows)
				first = batch.positions[row];
			return;
		}
		if (batch.from)
			ROLLED for (int s = (int)batch.from[span]; s >= 0; s = (int)batch.from[s])
				first += batch.starts[s + 1] - batch.starts[s];
	}

	// place is the row of the cache with the keys and values of a position. All lanes of a warp must call it together.
	MEMBER u32 place(u32 position) const {
		if (batch.positions)
			return batch.from[(u64)span * batch.stride + position / cache_block] * cache_block + position % cache_block;
		u32 s = span, begin = first, at = row;
		ROLLED while (__nvvm_vote_any_sync(~0u, position < begin)) {
			u32 parent = batch.from[s];
			s = position < begin ? parent : s, at = batch.starts[s];
			u32 rows = batch.starts[s + 1] - at;
			begin -= position < begin ? rows : 0;
		}
		return at + (position - begin);
	}
};

// span_of_tile finds the span of a tile, and the tile's first pair of a row and a query head of the group. Tiles of span s are numbered
// from floor(pairs before it / tile_rows) + s, which leaves room for all of them; some numbers have no tile.
DEVICE u32 span_of_tile(const Batch &batch, u32 tile, u32 group, u32 tile_rows, u32 *start) {
	u32 low = 0, high = batch.n; // the last span that begins at or before the tile
	ROLLED while (high - low > 1) {
		u32 middle = (low + high) / 2;
		if ((u64)batch.starts[middle] * group / tile_rows + middle <= tile)
			low = middle;
		else
			high = middle;
	}
	*start = (tile - ((u32)((u64)batch.starts[low] * group / tile_rows) + low)) * tile_rows;
	return low;
}

// The pairs of a tile: a row, and one of the query heads that share one key-value head.
struct Pairs {
	u32 start, end, row, first, group, head; // pairs of the span in [start, end); its first row and position; the first query head

	MEMBER u32 of(u32 i) const { return start + i < end ? start + i : end - 1; } // padding repeats the last pair
	MEMBER bool has(u32 i) const { return start + i < end; }
	MEMBER u32 position(u32 i) const { return first + of(i) / group; }
	MEMBER u64 at(u32 i) const { return row + of(i) / group; } // row of the batch
	MEMBER u32 query(u32 i) const { return head + of(i) % group; }
};

// copy_rows copies rows to rows of shared memory with the given pitch: row r is at offset at(r, in) of `from`, and becomes zero if at
// sets in to false. Columns from padded_dim on become zero, too.
template <u32 tile_rows, u32 dim, u32 pitch, u32 tile_threads, typename T, class F>
DEVICE void copy_rows(u32 to, const T *from, u32 padded_dim, F at) {
	constexpr u32 per_copy = 16 / sizeof(T), copies_across = dim / per_copy, row_step = tile_threads / copies_across;
	static_assert(tile_threads % copies_across == 0 && tile_rows % row_step == 0 && pitch % per_copy == 0,
		"every thread brings as much, to multiples of 16 bytes");
	u32 t = thread_here(), r = t / copies_across, c = t % copies_across * per_copy;
	to += (r * pitch + c) * (u32)sizeof(T);
	UNROLL for (u32 i = 0; i < tile_rows; i += row_step) {
		bool in = true;
		u64 row = at(r + i, in);
		copy16(to + i * pitch * (u32)sizeof(T), from + row + c, (in & (c < padded_dim)) ? 16 : 0); // 0 bytes if it is padding, from any address
	}
}

// CacheRows are the cache rows of `count` positions that a thread copies. They are looked up together and ahead of time, since each lookup
// may wait for a table in memory.
template <class E, u32 count> struct CacheRows {
	static constexpr u32 each = 16 / sizeof(typename E::Number), across = E::dim / each, step = E::threads / across,
		rows_per_thread = count / step;
	static_assert(E::threads % across == 0 && count % step == 0);
	u32 row[rows_per_thread];

	static MEMBER u32 first() { return thread_here() / across; }

	// find_rows finds the rows of the positions from `position` on; those at end and after repeat the last one. In a packed batch they are
	// mostly consecutive: that is so if the last row is as far from the first as its position, since a span comes after those that it
	// continues.
	MEMBER void find_rows(const Span &s, u32 position, u32 end) {
		u32 last = min(position + count, end) - 1, mine = position + first(), begin = s.row + position;
		bool contiguous = !s.batch.positions;
		if (contiguous && s.batch.from)
			begin = s.place(min(position, last)), contiguous = s.place(last) - begin == last - min(position, last);
		if (contiguous)
			UNROLL for (u32 i = 0; i < rows_per_thread; i++)
				row[i] = begin + (min(mine + i * step, last) - position);
		else
			UNROLL for (u32 i = 0; i < rows_per_thread; i++)
				row[i] = s.place(min(mine + i * step, last));
	}

	// copy starts the copies to shared memory; positions at end and after become zero.
	MEMBER void copy(u32 to, const typename E::Number *from, u32 position, u32 end, const Heads &heads) const {
		u32 r = first(), c = thread_here() % across * each;
		to += (r * E::pitch + c) * sizeof(*from), from += c;
		UNROLL for (u32 i = 0; i < rows_per_thread; i++)
			copy16(to + i * step * E::pitch * sizeof(*from), from + row[i] * heads.stride(),
				((position + r + i * step < end) & (c < heads.padded_dim())) ? 16 : 0);
	}
};
