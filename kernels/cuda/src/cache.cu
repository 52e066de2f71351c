// Keys and values in a cache: rows (KV heads of keys | KV heads of values), each head padded with zeros to padded_dim numbers.
#include "attention.h"

// A number below upper_bound is finite in the cache, too.
template <typename T> constexpr float upper_bound = sizeof(T) == 2 ? 0x1.ffp127f : __builtin_inff();

// is_finite reports whether x is finite in the cache. Tiles multiply the values of masked positions by weights of 0, which gives NaN for
// NaN or infinity. So such a value is stored as 0, and the number of the key in the same place as NaN: where the position is masked, the
// NaN goes with its score; where it is not, the result of the row becomes NaN, as it must.
template <typename T> DEVICE bool is_finite(float x) { return x < upper_bound<T> && x > -upper_bound<T>; }

// cache_write: row t (block) of qkv goes to its row of the cache: in a packed batch (positions is null) row t, in a paged one the row of
// its position.
template <typename T> DEVICE void cache_write(T *cache, const float *qkv, const Batch &batch, const Heads &heads) {
	u32 t = block_x(), cache_row = t, padded_dim = heads.padded_dim();
	if (batch.positions) {
		u32 low = 0, high = batch.n; // the last span that begins at or before the row
		ROLLED while (high - low > 1) {
			u32 middle = (low + high) / 2;
			if (batch.starts[middle] <= t)
				low = middle;
			else
				high = middle;
		}
		u32 position = batch.positions[t];
		cache_row = batch.from[(u64)low * batch.stride + position / cache_block] * cache_block + position % cache_block;
	}
	const float *x = qkv + (u64)t * heads.width() + heads.q * heads.dim;
	T *to = cache + cache_row * heads.stride();
	bool wide = aligned(x) && heads.dim % 4 == 0;
	ROLLED for (u32 i = 4 * thread(); i < heads.stride(); i += 4 * threads) {
		u32 head = i / padded_dim, c = i % padded_dim;
		bool key = head < heads.kv;
		Four v = load_four(x + head * heads.dim, c, heads.dim, wide);
		Four value = key ? load_four(x + (head + heads.kv) * heads.dim, c, heads.dim, wide) : v;
		UNROLL for (u32 n = 0; n < 4; n++)
			v[n] = is_finite<T>(value[n]) ? v[n] : key ? __builtin_nanf("") : 0;
		store_four(to + i, v);
	}
}

KERNEL THREADS(256) cache_write_bf16(u16 *cache, const float *qkv, const u32 *starts, const u32 *positions, const u32 *from, u32 n,
	u32 stride, u32 q, u32 kv, u32 dim) {
	cache_write(cache, qkv, {starts, positions, from, n, stride}, {q, kv, dim});
}
KERNEL THREADS(256) cache_write_f32(float *cache, const float *qkv, const u32 *starts, const u32 *positions, const u32 *from, u32 n,
	u32 stride, u32 q, u32 kv, u32 dim) {
	cache_write(cache, qkv, {starts, positions, from, n, stride}, {q, kv, dim});
}

// cache_copy copies block from[i] to block to[i], for each i in order. A block copies size times 16 bytes, each thread the same part for
// every i. The block in y is the layer, and `layer` the distance between layers.
typedef u32 Bytes16 __attribute__((ext_vector_type(4)));
KERNEL THREADS(256) cache_copy(Bytes16 *cache, const u32 *to, const u32 *from, u32 n, u32 size, u64 layer) {
	u32 at = block_x() * threads + thread();
	if (at >= size)
		return;
	cache += block_y() * layer + at;
	ROLLED for (u32 i = 0; i < n; i++)
		cache[(u64)to[i] * size] = cache[(u64)from[i] * size];
}
