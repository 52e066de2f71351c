// d_table [V, width] += the rows of d_out [T, width], each at its id. Rows are first sorted by id, stably.
#include "bins.h"

// A stable pass of a radix sort over 8 bits of the ids: sorted [T] are the rows of unsorted, or 0 to T−1. It takes one block, each of
// whose warps has a part of the rows and its own counters.
KERNEL sort_rows(int *sorted, const int *unsorted, const int *ids, u32 shift, u32 T) {
	constexpr u32 warps = threads / 32;
	__shared__ u32 next[warps][256]; // the index in sorted of the next row with these bits
	u32 *counters = next[thread() / 32], warp_rows = (T + warps - 1) / warps;
	u32 from = thread() / 32 * warp_rows, end = min(T, from + warp_rows);
	auto row_at = [&](u32 i) { return unsorted ? unsorted[i] : (int)i; };
	auto bits_of = [&](int row) { return (u32)ids[row] >> shift & 255; };
	for (u32 i = lane(); i < 256; i += 32)
		counters[i] = 0;
	__nvvm_bar_warp_sync(~0u);
	// A warp stays together: lanes after the end repeat the last row, and are not counted.
	for (u32 first = from; first < end; first += 32)
		count_into(&counters[bits_of(row_at(min(first + lane(), end - 1)))], first + lane() < end);
	barrier();
	u32 count = 0, all;
	for (u32 w = 0; w < warps; w++)
		count += next[w][thread()];
	u32 place = before(count, &all);
	for (u32 w = 0; w < warps; w++) {
		u32 n = next[w][thread()];
		next[w][thread()] = place;
		place += n;
	}
	barrier();
	for (u32 first = from; first < end; first += 32) {
		u32 source = min(lane(), end - 1 - first);
		int row = row_at(first + source);
		u32 bits = bits_of(row), same = __nvvm_match_any_sync_i32(~0u, (int)bits);
		u32 lower = (u32)__builtin_popcount(same & ((1u << source) - 1)), slot = counters[bits] + lower;
		__nvvm_bar_warp_sync(~0u);
		sorted[slot] = row;
		count_into(&counters[bits], lower || source != lane() ? 0 : (u32)__builtin_popcount(same)); // after the end, nobody reads it
		__nvvm_bar_warp_sync(~0u);
	}
}

// There is a block for each row in sorted order and 256 columns. That of the first row with an id adds up all rows with this id, and adds
// the sum to the table; the others have nothing to do.
KERNEL embed_grad(float *d_table, const float *d_out, const int *ids, const int *sorted, u32 width, u32 T) {
	u32 i = block(), column = block_y() * threads + thread();
	int id = ids[sorted[i]];
	if (column >= width || (i && ids[sorted[i - 1]] == id))
		return;
	constexpr u32 ahead = 8; // loads in flight
	float sum = 0;
	for (bool more = true; more; i += ahead) {
		float next[ahead];
		UNROLL for (u32 k = 0; k < ahead; k++) {
			int row = i + k < T ? sorted[i + k] : 0;
			more = more && i + k < T && ids[row] == id;
			next[k] = more ? d_out[(u64)row * width + column] : 0;
		}
		UNROLL for (u32 k = 0; k < ahead; k++)
			sum += next[k];
	}
	d_table[(u64)id * width + column] += sum;
}
