// The order in which a tile's pairs read blocks of keys from memory, for attention_bf16.cu and attention_f32.cu. The engine E, which is
// defined there, does the arithmetic of one block of keys.
#pragma once
#include "attention.h"

// Operands of a kernel. The output is out [T, q heads · dim] and lse [T, q heads] (or null), or else parts [T, q heads, count, 4 + dim]:
// for each part of 1,024 positions the maximum score, the sum of weights, two unused numbers, and the sum of weighted values.
struct Attention {
	float *out, *lse, *parts;
	u32 count;
	const float *qkv;
	Heads heads;
	Scoring scoring;
};
constexpr u32 part = 1024;

// Merge has the factors that rescale a part, and the sum of the parts before it, to their common maximum. Before the first part, the
// maximum is `lowest` and sums are 0.
struct Merge {
	float max_score, scale_before, scale_now;
	MEMBER Merge(float max_before, float max_now) {
		max_score = max_now > max_before ? max_now : max_before;
		scale_before = exponential(max_before - max_score), scale_now = exponential(max_now - max_score);
	}
	MEMBER float of(float a, float b) const { return fma(a, scale_before, b * scale_now); }
};

// Target is where the sums of a part go: to their own place in parts, or to the row of the result, added to the parts before.
struct Target {
	float *weighted, *lse, *part_sums; // part_sums: the maximum score and the sum of weights of a part; lse and part_sums may be null
	bool exists, first, last; // exists: the pair exists, and is not padding of the tile

	MEMBER Target(const Attention &a, const Pairs &pairs, u32 i, u32 key, bool end) {
		u32 dim = opaque(a.heads.dim);
		u64 at = pairs.at(i) * opaque(a.heads.q) + pairs.query(i);
		exists = pairs.has(i), first = a.parts || key / part == a.scoring.first(pairs.position(0)) / part, last = !a.parts && end;
		part_sums = a.parts ? a.parts + (at * opaque(a.count) + key / part) * (4 + dim) : nullptr;
		weighted = part_sums ? part_sums + 4 : a.out + at * dim;
		lse = a.lse && last ? a.lse + at : nullptr;
	}

	// before returns the sum of the parts before in a column.
	MEMBER float before(bool in, u32 column) const { return read_if(in & exists & !first, weighted + column); }
	MEMBER void sums(bool writes, float max_score, float sum) const {
		bool part = writes & exists & (part_sums != nullptr);
		write_if(part, part_sums, max_score);
		write_if(part, part_sums + 1, sum);
		write_if(writes & exists & (lse != nullptr), lse, max_score + logarithm(sum));
	}
};

// for_each_query calls f for every four numbers of a tile's scaled queries, with their row and column. A head is padded with zeros.
template <class E, class F> DEVICE void for_each_query(const Attention &a, const Pairs &pairs, F f) {
	static_assert(E::tile_rows * E::dim % (4 * E::threads) == 0);
	float scale = a.scoring.scale;
	auto four = [&](u32 n, bool wide) {
		u32 i = thread() + n * E::threads, r = i / (E::dim / 4), c = i % (E::dim / 4) * 4;
		const float *q = a.qkv + pairs.at(r) * a.heads.width() + pairs.query(r) * a.heads.dim;
		Four x;
		if (wide)
			x = *(const Four *)(q + (c < a.heads.dim ? c : 0));
		else
			UNROLL for (u32 n = 0; n < 4; n++)
				x[n] = read_if(c + n < a.heads.dim, q + c + n);
		f(r, c, c < a.heads.dim ? x * scale : 0);
	};
	if (aligned(a.qkv) && a.heads.dim % 4 == 0)
		UNROLL for (u32 n = 0; n < E::tile_rows * E::dim / 4 / E::threads; n++)
			four(n, true);
	else
		ROLLED for (u32 n = 0; n < E::tile_rows * E::dim / 4 / E::threads; n++)
			four(n, false);
}

// attend_two_buffers has one buffer for keys and one for values: keys are copied while values are used, and values while keys are.
template <class E, class F, class L, typename T>
DEVICE void attend_two_buffers(u32 base, const Attention &a, const Pairs &pairs, u32 first, u32 to, F fetch, L find_rows, T keys,
	T values) {
	E e(base, a, pairs);
	ROLLED for (u32 key = first; key < to; key += E::keys) {
		u32 next_key = key + E::keys;
		wait<0>();
		barrier(); // keys have arrived, and the last values are no longer needed
		fetch(E::v, values, key);
		commit();
		find_rows(next_key);
		e.scores(key, 0);
		barrier(); // scores are complete, and the keys are no longer needed
		fetch(E::k, keys, next_key);
		commit();
		e.weigh();
		wait<1>();
		barrier(); // weights are complete, and values have arrived
		e.add(0);
		if (next_key % part == 0 || next_key >= to)
			e.end_part(a, pairs, key, next_key >= to);
	}
}

// attend_ring has a ring of five buffers: four for two blocks of keys and values, one that is filled meanwhile. The copy of the first
// keys has begun.
template <class E, class F, class L, typename T>
DEVICE void attend_ring(u32 base, const Attention &a, const Pairs &pairs, u32 first, u32 to, F fetch, L find_rows, T keys, T values) {
	fetch(E::k + E::stage, values, first);
	commit();
	find_rows(first + E::keys);
	fetch(E::k + 2 * E::stage, keys, first + E::keys);
	commit();
	fetch(E::k + 3 * E::stage, values, first + E::keys);
	commit();
	find_rows(first + 2 * E::keys);
	E e(base, a, pairs);
	u32 now = 0;
	auto place = [&](u32 n) { return now + n * E::stage < 5 * E::stage ? now + n * E::stage : now + n * E::stage - 5 * E::stage; };
	ROLLED for (u32 key = first; key < to; key += E::keys) {
		u32 next = key + 2 * E::keys, next_key = key + E::keys;
		wait<3>();
		barrier(); // keys have arrived, and the last values are no longer needed
		fetch(E::k + place(4), keys, next);
		commit();
		e.scores(key, now);
		barrier(); // scores are complete, and the keys are no longer needed
		fetch(E::k + now, values, next);
		commit();
		find_rows(next + E::keys);
		e.weigh();
		wait<4>();
		barrier(); // weights are complete, and values have arrived
		e.add(place(1));
		if (next_key % part == 0 || next_key >= to)
			e.end_part(a, pairs, key, next_key >= to);
		now = place(2);
	}
}

// attend computes the tile and the key-value head of the block. E defines the arithmetic: the type of numbers, and the state of a thread.
template <class E> DEVICE void attend(const Attention &a, const typename E::Number *cache, const Batch &batch) {
	extern __shared__ __attribute__((aligned(16))) unsigned char memory[];
	u32 base = shared_address(memory), group = a.heads.group(), head = head_of_block(a.heads.kv), start;
	Span s(batch, span_of_tile(batch, tile_of_block(a.heads.kv), group, E::tile_rows, &start));
	if (start >= s.rows * group)
		return;
	Pairs pairs{start, s.rows * group, s.row, s.first, group, head * group};
	u32 end = pairs.position(E::tile_rows - 1) + 1, first = a.parts ? block_z() * part : 0;
	u32 to = a.parts && first + part < end ? first + part : end, low = a.scoring.first(pairs.position(0)) / E::keys * E::keys;
	first = low > first ? low : first; // skips blocks of keys that no pair of the tile reads
	if (first >= to)
		return;
	const typename E::Number *keys = cache + head * a.heads.padded_dim(), *values = keys + a.heads.kv * a.heads.padded_dim();
	CacheRows<E, E::keys> cache_rows;
	auto fetch = [&](u32 place, const typename E::Number *from, u32 position) INLINE {
		if (position < to)
			cache_rows.copy(opaque(base) + place, from, position, end, a.heads);
	};
	cache_rows.find_rows(s, first, end);
	fetch(E::k, keys, first);
	commit();
	E::run(base, a, pairs, first, to, fetch, [&](u32 position) INLINE { cache_rows.find_rows(s, position, end); }, keys, values);
}
