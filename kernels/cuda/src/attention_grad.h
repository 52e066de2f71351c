// The gradient of attention, for attention_grad_bf16.cu and attention_grad_f32.cu.
//
// With weights p = e^(score − lse) and their gradients s = p · (dout · value − dout · out), the gradient of a query is Σ s · key · scale,
// of a key Σ s · query · scale, and of a value Σ p · dout. A tile of queries reads keys and values by position from the start of the
// sequence. A tile of keys belongs to one span, so that every row from the key's own to the end of the spans that continue this one reads
// it: the queries of these rows are pairs of a row and a query head, counted from the first row of the tree. Each sum is ascending;
// masked pairs add exactly nothing.
//
// Scaled queries and dout are packed into rows (Q heads of queries | Q heads of dout), heads kept numbers apart, like keys and values.
#pragma once
#include "attention.h"

DEVICE Heads readers(const Heads &h) { return {0, h.q, h.dim}; } // stride and kept are then those of the rows of queries

// Operands of a kernel: rows of keys and values, of queries and gradients, lse [T, q heads] and delta [T, q heads] = dout · out.
template <typename Number> struct Gradient {
	float *dqkv;
	const Number *cache, *asked;
	const float *lse, *delta;
	const u32 *positions; // of rows
	Heads h;
	Scores f;
};

// places is the room for the positions of the rows that are read.
constexpr u32 places(u32 deep) { return deep < 32 ? 32 : deep; }

// after is the first span after those that continue a span.
DEVICE u32 after(const Batch &b, u32 span) {
	u32 s = span + 1;
	if (b.from)
		ROLLED while (s < b.n && (int)b.from[s] >= (int)span)
			s++;
	return s;
}

// root is the first row of the tree that a span belongs to.
DEVICE u32 root(const Batch &b, u32 span) {
	if (b.from)
		ROLLED while ((int)b.from[span] >= 0)
			span = b.from[span];
	return b.starts[span];
}

// Asked locates the queries, and the gradients of their outputs, that a thread copies: of deep pairs (a row and a query head) from one
// on.
template <class E> struct Asked {
	static constexpr u32 each = 16 / sizeof(typename E::Number), across = E::dim / each, step = E::threads / across, n = E::deep / step;
	static_assert(E::threads % across == 0 && E::deep % step == 0);
	u32 at[n]; // in units of 8 numbers, so that 32 bits suffice

	static MEMBER u32 mine() { return thread_here() / across; }
	MEMBER void look(u32 first, u32 pair, u32 group, u32 stride, u32 kept) {
		u32 row = first + (pair + mine()) / group, query = (pair + mine()) % group;
		UNROLL for (u32 i = 0; i < n; i++) {
			at[i] = row * (stride / 8) + query * (kept / 8);
			row += step / group, query += step % group;
			row += query >= group, query -= query >= group ? group : 0;
		}
	}

	// copy starts their copies to shared memory; pairs at end and after become zero.
	MEMBER void copy(u32 to, const typename E::Number *from, u32 pair, u32 end, u32 kept) const {
		u32 r = mine(), c = thread_here() % across * each;
		to += (r * E::pitch + c) * sizeof(*from), from += c;
		UNROLL for (u32 i = 0; i < n; i++)
			copy16(to + i * step * E::pitch * sizeof(*from), from + (u64)at[i] * 8, ((pair + r + i * step < end) & (c < kept)) ? 16 : 0);
	}
};

// bring_numbers copies lse, then delta, then positions of pairs from one on; those at end and after are 0.
template <class E> DEVICE void bring_numbers(u32 to, const Gradient<typename E::Number> &g, u32 first, u32 query, u32 pair, u32 end) {
	u32 t = thread_here(), n = pair + t % E::deep, group = g.h.group();
	const float *from = (t < E::deep ? g.lse : g.delta) + (u64)(first + n / group) * g.h.q + query + n % group;
	if (t < 2 * E::deep)
		copy4(to + t * 4, n < end ? from : g.lse, n < end ? 4 : 0);
	u32 row_of = here(first + n / group);
	bool in = (t < E::deep) & (n < end);
	if (t < places(E::deep)) // whole warps
		copy4(to + (2 * E::deep + t) * 4, (const float *)g.positions + (in ? row_of : 0), in ? 4 : 0);
}

// each_step goes through the rows that a tile reads: X and Y are keys and values, or queries and dout. fetch copies both to a stage.
template <class E, class F> DEVICE void each_step(E &e, u32 from, u32 end, F fetch) {
	fetch(from, 0);
	commit();
	if constexpr (E::stages == 2)
		return each_step_ahead(e, from, end, fetch);
	else
		ROLLED for (u32 at = from; at < end; at += E::deep) {
			wait<0>();
			barrier(); // X and Y have arrived, and the last ones are no longer needed
			e.slopes(at, end);
			barrier(); // the slopes are complete
			e.add();
			barrier(); // X and Y are no longer needed
			if (at + E::deep < end)
				fetch(at + E::deep, 0);
			commit();
		}
}

// each_step_ahead copies the next X and Y while the current ones are used.
template <class E, class F> DEVICE void each_step_ahead(E &e, u32 from, u32 end, F fetch) {
	u32 now = 0;
	ROLLED for (u32 at = from; at < end; at += E::deep) {
		wait<0>();
		barrier(); // X and Y have arrived, and the last ones are no longer needed
		if (at + E::deep < end)
			fetch(at + E::deep, E::stage - now);
		commit();
		e.step(at, end, now);
		now = E::stage - now;
	}
}

// grad_queries computes dq of the tile, for the key-value head of the block.
template <class E> DEVICE void grad_queries(const Gradient<typename E::Number> &g, const Batch &b) {
	extern __shared__ __attribute__((aligned(16))) unsigned char memory[];
	u32 base = shared_address(memory), group = g.h.group(), head = head_here(g.h.kv), start, kept = g.h.kept();
	Span s(b, span_of_tile(b, tile_here(g.h.kv), group, E::high, &start));
	if (start >= s.rows * group)
		return;
	Pairs pairs{start, s.rows * group, s.row, s.first, group, head * group};
	u32 end = pairs.position(E::high - 1) + 1;
	UNROLL for (u32 of = 0; of < 2; of++)
		bring_rows<E::high, E::dim, E::pitch, E::threads>(base + of * E::own_y, g.asked + of * g.h.q * kept, kept, [&](u32 r, bool &in) {
			return pairs.at(r) * readers(g.h).stride() + pairs.query(r) * kept;
		});
	E e(base, g.h.dim, g.f);
	UNROLL for (u32 i = 0; i < E::mine; i++) {
		u64 at = pairs.at(e.row(i)) * g.h.q + pairs.query(e.row(i));
		e.limit[i] = pairs.position(e.row(i)), e.lse[i] = g.lse[at], e.delta[i] = g.delta[at];
	}
	e.ready();
	const typename E::Number *keys = g.cache + head * kept, *values = keys + g.h.kv * kept;
	each_step(e, g.f.first(pairs.position(0)) / E::begin * E::begin, end, [&](u32 position, u32 stage) INLINE {
		Places<E, E::deep> places;
		places.look(s, position, end);
		places.copy(here(base) + E::x + stage, keys, position, end, g.h);
		places.copy(here(base) + E::y + stage, values, position, end, g.h);
	});
	float scale = g.f.scale;
	UNROLL for (u32 i = 0; i < E::mine; i++)
		if (pairs.has(e.row(i)))
			e.write(g.dqkv + pairs.at(e.row(i)) * g.h.width() + pairs.query(e.row(i)) * g.h.dim, i, g.h.dim, scale, e.of_x);
}

// grad_keys computes dk and dv of the tile, for the key-value head of the block.
template <class E> DEVICE void grad_keys(const Gradient<typename E::Number> &g, const Batch &b) {
	extern __shared__ __attribute__((aligned(16))) unsigned char memory[];
	u32 base = shared_address(memory), group = g.h.group(), head = head_here(g.h.kv), start, kept = g.h.kept();
	u32 span = span_of_tile(b, block_x() / g.h.kv, 1, E::high, &start), row = b.starts[span] + start;
	u32 rows = b.starts[span + 1] - b.starts[span];
	if (start >= rows)
		return;
	rows -= start;
	u32 first = root(b, span), end = (b.starts[after(b, span)] - first) * group; // pairs of the tree
	u64 last = (u64)row - first + E::high + g.f.window; // no row of a sequence from here on reads a key of the tile
	if (!b.from && last * group < end)
		end = (u32)last * group;
	UNROLL for (u32 of = 0; of < 2; of++)
		bring_rows<E::high, E::dim, E::pitch, E::threads>(base + of * E::own_y, g.cache + (of * g.h.kv + head) * kept, kept,
			[&](u32 r, bool &in) {
				in = r < rows;
				return (row + r) * g.h.stride();
			});
	E e(base, g.h.dim, g.f);
	UNROLL for (u32 i = 0; i < E::mine; i++)
		e.limit[i] = (row + e.row(i) - first) * group, e.above[i] = g.positions[row + (e.row(i) < rows ? e.row(i) : 0)] + g.f.window;
	e.ready();
	const typename E::Number *queries = g.asked + head * group * kept;
	each_step(e, (row - first) * group / E::begin * E::begin, end, [&](u32 pair, u32 stage) INLINE {
		Asked<E> asked;
		asked.look(first, pair, group, 2 * g.h.q * kept, kept);
		asked.copy(here(base) + E::x + stage, queries, pair, end, kept);
		asked.copy(here(base) + E::y + stage, queries + g.h.q * kept, pair, end, kept);
		bring_numbers<E>(here(base) + E::sums + stage, g, first, head * group, pair, end);
	});
	UNROLL for (u32 i = 0; i < E::mine; i++)
		if (e.row(i) < rows) {
			float *to = g.dqkv + (u64)(row + e.row(i)) * g.h.width() + (g.h.q + head) * g.h.dim;
			e.write(to, i, g.h.dim, 1, e.of_x);
			e.write(to + g.h.kv * g.h.dim, i, g.h.dim, 1, e.of_y);
		}
}

// position_of is the position of a row of the batch in its sequence.
DEVICE u32 position_of(const Batch &b, u32 row) {
	u32 low = 0, above = b.n; // the last span that begins at or before the row
	ROLLED while (above - low > 1) {
		u32 middle = (low + above) / 2;
		if (b.starts[middle] <= row)
			low = middle;
		else
			above = middle;
	}
	Span s(b, low);
	return s.first + (row - s.row);
}

// grad_pack packs one row and head per warp: scaled queries, and dout. It computes delta [T, q heads] and the positions [T] of rows.
template <typename T> DEVICE void grad_pack(T *asked, float *delta, u32 *positions, const float *qkv, const float *dout, const float *out,
	const Batch &b, const Heads &h, float scale, u32 rows) {
	u64 at = (u64)block_x() * (threads / 32) + thread() / 32, t = at / h.q, head = at % h.q;
	if (t >= rows)
		return;
	u32 kept = h.kept();
	float sum = 0;
	bool wide = aligned(qkv, dout, out) && h.dim % 4 == 0;
	const float *q = qkv + t * h.width() + head * h.dim;
	T *to = asked + t * readers(h).stride() + head * kept;
	UNROLL for (u32 from = 0; from < 256; from += 128) { // the largest head size is 256
		u32 c = from + 4 * lane();
		Four x = load_four(q, c, h.dim, wide) * scale, y = load_four(dout + at * h.dim, c, h.dim, wide);
		Four z = load_four(out + at * h.dim, c, h.dim, wide);
		if constexpr (sizeof(T) == 2)
			UNROLL for (u32 n = 0; n < 4; n++)
				y[n] = first_of(rounded(y[n], 0));
		UNROLL for (u32 n = 0; n < 4; n++)
			sum = fma(y[n], z[n], sum);
		if (c < kept)
			store_four(to + c, x), store_four(to + h.q * kept + c, y);
	}
	sum = over_warp(sum);
	if (lane() == 0)
		delta[at] = sum;
	if (lane() == 0 && head == 0)
		positions[t] = position_of(b, (u32)t);
}
#define GRAD_PACK(type, Number) \
	KERNEL THREADS(256) attention_grad_pack_##type(Number *asked, float *delta, u32 *positions, const float *qkv, const float *dout, \
		const float *out, const u32 *starts, const u32 *from, u32 n, u32 q, u32 kv, u32 dim, float scale, u32 rows) { \
		grad_pack(asked, delta, positions, qkv, dout, out, {starts, nullptr, from, n, 0}, {q, kv, dim}, scale, rows); \
	}
#define GRAD(of, type, Engine, dim, high, blocks) \
	KERNEL BLOCKS((Engine::threads), blocks) attention_grad_##of##_##type##_##high##x##dim(float *dqkv, const Engine::Number *cache, \
		const Engine::Number *asked, const float *lse, const float *delta, const u32 *positions, const u32 *starts, const u32 *from, \
		u32 n, u32 q, u32 kv, u32 size, float scale, float cap, u32 window) { \
		grad_##of<Engine>({dqkv, cache, asked, lse, delta, positions, {q, kv, size}, {scale, cap, window}}, {starts, nullptr, from, n, 0}); \
	}
