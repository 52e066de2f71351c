// The gradient of attention, for attention_grad_bf16.cu and attention_grad_f32.cu.
//
// With weights p = e^(score − lse) and their gradients s = p · (dout · value − dout · out), the gradient of a query is Σ s · key · scale,
// of a key Σ s · query · scale, and of a value Σ p · dout. A tile of queries reads keys and values by position from the start of the
// sequence. A tile of keys belongs to one span, so that every row from the key's own to the end of the spans that continue this one reads
// it: the queries of these rows are pairs of a row and a query head, counted from the first row of the tree. Each sum is ascending;
// masked pairs add exactly nothing.
//
// Scaled queries and dout are packed into rows (Q heads of queries | Q heads of dout), heads padded_dim numbers apart, like keys and
// values.
#pragma once
#include "attention.h"

// The heads of packed rows, which have queries in place of keys and dout in place of values.
DEVICE Heads packed_heads(const Heads &heads) { return {0, heads.q, heads.dim}; }

// Operands of a kernel: rows of keys and values, of queries and gradients, lse [T, q heads] and delta [T, q heads] = dout · out.
template <typename Number> struct Gradient {
	float *dqkv;
	const Number *cache, *packed;
	const float *lse, *delta;
	const u32 *positions; // of rows
	Heads heads;
	Scoring scoring;
};

// position_slots is the room for the positions of the rows that are read.
constexpr u32 position_slots(u32 deep) { return deep < 32 ? 32 : deep; }

// span_after is the first span after those that continue a span.
DEVICE u32 span_after(const Batch &batch, u32 span) {
	u32 s = span + 1;
	if (batch.from)
		ROLLED while (s < batch.n && (int)batch.from[s] >= (int)span)
			s++;
	return s;
}

// first_tree_row is the first row of the tree that a span belongs to.
DEVICE u32 first_tree_row(const Batch &batch, u32 span) {
	if (batch.from)
		ROLLED while ((int)batch.from[span] >= 0)
			span = batch.from[span];
	return batch.starts[span];
}

// QueryRows locates the queries, and the gradients of their outputs, that a thread copies: read_rows pairs (a row and a query head) from a
// given one on.
template <class E> struct QueryRows {
	static constexpr u32 each = 16 / sizeof(typename E::Number), across = E::dim / each, step = E::threads / across, n = E::read_rows / step;
	static_assert(E::threads % across == 0 && E::read_rows % step == 0);
	u32 at[n]; // in units of 8 numbers, so that 32 bits suffice

	static MEMBER u32 mine() { return thread_here() / across; }
	MEMBER void find_rows(u32 first, u32 pair, u32 group, u32 stride, u32 padded_dim) {
		u32 row = first + (pair + mine()) / group, query = (pair + mine()) % group;
		UNROLL for (u32 i = 0; i < n; i++) {
			at[i] = row * (stride / 8) + query * (padded_dim / 8);
			row += step / group, query += step % group;
			row += query >= group, query -= query >= group ? group : 0;
		}
	}

	// copy starts their copies to shared memory; pairs at end and after become zero.
	MEMBER void copy(u32 to, const typename E::Number *from, u32 pair, u32 end, u32 padded_dim) const {
		u32 r = mine(), c = thread_here() % across * each;
		to += (r * E::pitch + c) * sizeof(*from), from += c;
		UNROLL for (u32 i = 0; i < n; i++)
			copy16(to + i * step * E::pitch * sizeof(*from), from + (u64)at[i] * 8, ((pair + r + i * step < end) & (c < padded_dim)) ? 16 : 0);
	}
};

// copy_row_scalars copies lse, then delta, then positions of pairs from `pair` on; those at end and after are 0.
template <class E> DEVICE void copy_row_scalars(u32 to, const Gradient<typename E::Number> &g, u32 first, u32 query, u32 pair, u32 end) {
	u32 t = thread_here(), n = pair + t % E::read_rows, group = g.heads.group();
	const float *from = (t < E::read_rows ? g.lse : g.delta) + (u64)(first + n / group) * g.heads.q + query + n % group;
	if (t < 2 * E::read_rows)
		copy4(to + t * 4, n < end ? from : g.lse, n < end ? 4 : 0);
	u32 row_of = opaque(first + n / group);
	bool in = (t < E::read_rows) & (n < end);
	if (t < position_slots(E::read_rows)) // whole warps
		copy4(to + (2 * E::read_rows + t) * 4, (const float *)g.positions + (in ? row_of : 0), in ? 4 : 0);
}

// for_each_step goes through the rows that a tile reads: X and Y are keys and values, or queries and dout. fetch copies both to a stage.
template <class E, class F> DEVICE void for_each_step(E &e, u32 from, u32 end, F fetch) {
	fetch(from, 0);
	commit();
	if constexpr (E::stages == 2)
		return for_each_step_ahead(e, from, end, fetch);
	else
		ROLLED for (u32 at = from; at < end; at += E::read_rows) {
			wait<0>();
			barrier(); // X and Y have arrived, and the last ones are no longer needed
			e.slopes(at, end);
			barrier(); // the slopes are complete
			e.add();
			barrier(); // X and Y are no longer needed
			if (at + E::read_rows < end)
				fetch(at + E::read_rows, 0);
			commit();
		}
}

// for_each_step_ahead copies the next X and Y while the current ones are used.
template <class E, class F> DEVICE void for_each_step_ahead(E &e, u32 from, u32 end, F fetch) {
	u32 now = 0;
	ROLLED for (u32 at = from; at < end; at += E::read_rows) {
		wait<0>();
		barrier(); // X and Y have arrived, and the last ones are no longer needed
		if (at + E::read_rows < end)
			fetch(at + E::read_rows, E::stage - now);
		commit();
		e.step(at, end, now);
		now = E::stage - now;
	}
}

// grad_queries computes dq of the tile, for the key-value head of the block.
template <class E> DEVICE void grad_queries(const Gradient<typename E::Number> &g, const Batch &batch) {
	extern __shared__ __attribute__((aligned(16))) unsigned char memory[];
	u32 base = shared_address(memory), group = g.heads.group(), head = head_of_block(g.heads.kv), start, padded_dim = g.heads.padded_dim();
	Span s(batch, span_of_tile(batch, tile_of_block(g.heads.kv), group, E::tile_rows, &start));
	if (start >= s.rows * group)
		return;
	Pairs pairs{start, s.rows * group, s.row, s.first, group, head * group};
	u32 end = pairs.position(E::tile_rows - 1) + 1;
	UNROLL for (u32 operand = 0; operand < 2; operand++)
		copy_rows<E::tile_rows, E::dim, E::pitch, E::threads>(base + operand * E::own_y, g.packed + operand * g.heads.q * padded_dim, padded_dim,
			[&](u32 r, bool &in) { return pairs.at(r) * packed_heads(g.heads).stride() + pairs.query(r) * padded_dim; });
	E e(base, g.heads.dim, g.scoring);
	UNROLL for (u32 i = 0; i < E::thread_rows; i++) {
		u64 at = pairs.at(e.row(i)) * g.heads.q + pairs.query(e.row(i));
		e.limit[i] = pairs.position(e.row(i)), e.lse[i] = g.lse[at], e.delta[i] = g.delta[at];
	}
	e.ready();
	const typename E::Number *keys = g.cache + head * padded_dim, *values = keys + g.heads.kv * padded_dim;
	for_each_step(e, g.scoring.first(pairs.position(0)) / E::first_multiple * E::first_multiple, end, [&](u32 position, u32 stage) INLINE {
		CacheRows<E, E::read_rows> cache_rows;
		cache_rows.find_rows(s, position, end);
		cache_rows.copy(opaque(base) + E::x + stage, keys, position, end, g.heads);
		cache_rows.copy(opaque(base) + E::y + stage, values, position, end, g.heads);
	});
	float scale = g.scoring.scale;
	UNROLL for (u32 i = 0; i < E::thread_rows; i++)
		if (pairs.has(e.row(i)))
			e.write(g.dqkv + pairs.at(e.row(i)) * g.heads.width() + pairs.query(e.row(i)) * g.heads.dim, i, g.heads.dim, scale, e.sum_x);
}

// grad_keys computes dk and dv of the tile, for the key-value head of the block.
template <class E> DEVICE void grad_keys(const Gradient<typename E::Number> &g, const Batch &batch) {
	extern __shared__ __attribute__((aligned(16))) unsigned char memory[];
	u32 base = shared_address(memory), group = g.heads.group(), head = head_of_block(g.heads.kv), start, padded_dim = g.heads.padded_dim();
	u32 span = span_of_tile(batch, block_x() / g.heads.kv, 1, E::tile_rows, &start), row = batch.starts[span] + start;
	u32 rows = batch.starts[span + 1] - batch.starts[span];
	if (start >= rows)
		return;
	rows -= start;
	u32 first = first_tree_row(batch, span), end = (batch.starts[span_after(batch, span)] - first) * group; // pairs of the tree
	u64 last = (u64)row - first + E::tile_rows + g.scoring.window; // no row of a sequence from here on reads a key of the tile
	if (!batch.from && last * group < end)
		end = (u32)last * group;
	UNROLL for (u32 operand = 0; operand < 2; operand++)
		copy_rows<E::tile_rows, E::dim, E::pitch, E::threads>(base + operand * E::own_y, g.cache + (operand * g.heads.kv + head) * padded_dim,
			padded_dim, [&](u32 r, bool &in) {
				in = r < rows;
				return (row + r) * g.heads.stride();
			});
	E e(base, g.heads.dim, g.scoring);
	UNROLL for (u32 i = 0; i < E::thread_rows; i++)
		e.limit[i] = (row + e.row(i) - first) * group, e.end_position[i] = g.positions[row + (e.row(i) < rows ? e.row(i) : 0)] + g.scoring.window;
	e.ready();
	const typename E::Number *queries = g.packed + head * group * padded_dim;
	for_each_step(e, (row - first) * group / E::first_multiple * E::first_multiple, end, [&](u32 pair, u32 stage) INLINE {
		QueryRows<E> packed;
		packed.find_rows(first, pair, group, 2 * g.heads.q * padded_dim, padded_dim);
		packed.copy(opaque(base) + E::x + stage, queries, pair, end, padded_dim);
		packed.copy(opaque(base) + E::y + stage, queries + g.heads.q * padded_dim, pair, end, padded_dim);
		copy_row_scalars<E>(opaque(base) + E::sums + stage, g, first, head * group, pair, end);
	});
	UNROLL for (u32 i = 0; i < E::thread_rows; i++)
		if (e.row(i) < rows) {
			float *to = g.dqkv + (u64)(row + e.row(i)) * g.heads.width() + (g.heads.q + head) * g.heads.dim;
			e.write(to, i, g.heads.dim, 1, e.sum_x);
			e.write(to + g.heads.kv * g.heads.dim, i, g.heads.dim, 1, e.sum_y);
		}
}

// position_of is the position of a row of the batch in its sequence.
DEVICE u32 position_of(const Batch &batch, u32 row) {
	u32 low = 0, high = batch.n; // the last span that begins at or before the row
	ROLLED while (high - low > 1) {
		u32 middle = (low + high) / 2;
		if (batch.starts[middle] <= row)
			low = middle;
		else
			high = middle;
	}
	Span s(batch, low);
	return s.first + (row - s.row);
}

// grad_pack packs one row and head per warp: scaled queries, and dout. It computes delta [T, q heads] and the positions [T] of rows.
template <typename T> DEVICE void grad_pack(T *packed, float *delta, u32 *positions, const float *qkv, const float *dout, const float *out,
	const Batch &batch, const Heads &heads, float scale, u32 rows) {
	u64 at = (u64)block_x() * (threads / 32) + thread() / 32, t = at / heads.q, head = at % heads.q;
	if (t >= rows)
		return;
	u32 padded_dim = heads.padded_dim();
	float sum = 0;
	bool wide = aligned(qkv, dout, out) && heads.dim % 4 == 0;
	const float *q = qkv + t * heads.width() + head * heads.dim;
	T *to = packed + t * packed_heads(heads).stride() + head * padded_dim;
	UNROLL for (u32 from = 0; from < 256; from += 128) { // the largest head size is 256
		u32 c = from + 4 * lane();
		Four x = load_four(q, c, heads.dim, wide) * scale, y = load_four(dout + at * heads.dim, c, heads.dim, wide);
		Four z = load_four(out + at * heads.dim, c, heads.dim, wide);
		if constexpr (sizeof(T) == 2)
			UNROLL for (u32 n = 0; n < 4; n++)
				y[n] = first_of(rounded(y[n], 0));
		UNROLL for (u32 n = 0; n < 4; n++)
			sum = fma(y[n], z[n], sum);
		if (c < padded_dim)
			store_four(to + c, x), store_four(to + heads.q * padded_dim + c, y);
	}
	sum = over_warp(sum);
	if (lane() == 0)
		delta[at] = sum;
	if (lane() == 0 && head == 0)
		positions[t] = position_of(batch, (u32)t);
}
#define GRAD_PACK(type, Number) \
	KERNEL THREADS(256) attention_grad_pack_##type(Number *packed, float *delta, u32 *positions, const float *qkv, const float *dout, \
		const float *out, const u32 *starts, const u32 *from, u32 n, u32 q, u32 kv, u32 dim, float scale, u32 rows) { \
		grad_pack(packed, delta, positions, qkv, dout, out, {starts, nullptr, from, n, 0}, {q, kv, dim}, scale, rows); \
	}
#define GRAD(of, type, Engine, dim, tile_rows, blocks) \
	KERNEL BLOCKS((Engine::threads), blocks) attention_grad_##of##_##type##_##tile_rows##x##dim(float *dqkv, const Engine::Number *cache, \
		const Engine::Number *packed, const float *lse, const float *delta, const u32 *positions, const u32 *starts, const u32 *from, \
		u32 n, u32 q, u32 kv, u32 size, float scale, float cap, u32 window) { \
		grad_##of<Engine>({dqkv, cache, packed, lse, delta, positions, {q, kv, size}, {scale, cap, window}}, {starts, nullptr, from, n, 0}); \
	}
