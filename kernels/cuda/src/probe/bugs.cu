// Kernels with one mistake each, and the same kernels without it if "right" is set. docs/emulator.md shows the report of each mistake.
#include "probe.h"

#define PAIR(name, parameters, ...)                                                                                              \
	template <bool right> DEVICE void name parameters;                                                                           \
	KERNEL THREADS(256) name##_right parameters { name<true>(__VA_ARGS__); }                                                     \
	KERNEL THREADS(256) name##_wrong parameters { name<false>(__VA_ARGS__); }                                                    \
	template <bool right> DEVICE void name parameters

// Each thread reads its neighbour's number from shared memory.
PAIR(missing_barrier, (float *out, const float *in), out, in) {
	__shared__ float all[256];
	all[thread()] = in[index()];
	if (right)
		barrier();
	out[index()] = all[(thread() + 1) % threads()];
}

PAIR(missing_bound, (float *out, const float *in, u32 n), out, in, n) {
	u32 i = index();
	if (!right || i < n)
		out[i] = 2 * in[i];
}

// Each thread copies its 16 bytes to shared memory, and doubles them.
PAIR(missing_wait, (float *out, const float *in), out, in) {
	__shared__ __attribute__((aligned(16))) float all[256 * 4];
	float *mine = all + thread() * 4;
	copy16(mine, in + index() * 4);
	commit();
	if (right)
		wait<0>();
	for (u32 n = 0; n < 4; n++)
		out[index() * 4 + n] = 2 * mine[n];
}

// A block sums a row of 100 numbers, without padding.
PAIR(wrong_stride, (float *out, const float *in), out, in) {
	const float *row = in + block() * (right ? 100 : 104);
	float s = 0;
	for (u32 n = thread(); n < 100; n += threads())
		s += row[n];
	out[index()] = s;
}

// Every block adds the first number of the next one to its own.
PAIR(block_race, (float *out, float *x), out, x) {
	u32 next = (index() + threads()) % (threads() * __nvvm_read_ptx_sreg_nctaid_x());
	float v = x[index()];
	if (right)
		out[index()] = v + x[next];
	else
		x[index()] = v + x[next];
}

struct alignas(16) Four {
	float all[4];
};

PAIR(misaligned, (float *out, const float *in), out, in) {
	Four v = *(const Four *)(in + index() * 4 + (right ? 0 : 1));
	out[index()] = v.all[0] + v.all[1] + v.all[2] + v.all[3];
}

// Sums on top of the old content, which the host has to clear first.
PAIR(uninitialised, (float *out, const float *in), out, in) {
	float v = right ? 0 : out[index()];
	out[index()] = v + in[index()];
}

PAIR(lane_mask, (float *out, const float *in), out, in) {
	float v = in[index()];
	if (thread() % 32 < 16)
		v += __nvvm_shfl_sync_bfly_f32(right ? 0xffff : ~0u, v, 8, 31);
	out[index()] = v;
}

// Uses as much shared memory as the launch gives.
PAIR(large_shared, (float *out, u32 n), out, n) {
	extern __shared__ float dynamic[];
	for (u32 i = thread(); i < n; i += threads())
		dynamic[i] = (float)i;
	barrier();
	out[thread()] = dynamic[n - 1 - thread()] + (right ? 0 : 1);
}

// Half of the block reaches a barrier of the whole block.
PAIR(divergent_barrier, (float *out, const float *in), out, in) {
	__shared__ float all[256];
	all[thread()] = in[index()];
	if (right || thread() < threads() / 2)
		barrier();
	out[index()] = all[thread()];
}

// Two warps hand over a tile by a named barrier.
PAIR(named_barrier, (float *out, const float *in), out, in) {
	__shared__ float all[4][64];
	u32 pair = thread() / 64, t = thread() % 64;
	all[pair][t] = in[index()];
	__nvvm_barrier_sync_cnt(right ? pair + 1 : 1, right ? 64 : 96);
	out[index()] = all[pair][63 - t];
}

// Lanes hand over through shared memory within their warp.
PAIR(missing_warp_barrier, (float *out, const float *in), out, in) {
	__shared__ float all[256];
	all[thread()] = in[index()];
	if (right)
		__nvvm_bar_warp_sync(~0u);
	out[index()] = all[thread() ^ 1];
}

// Four warps write and go on, four others wait for them and read.
PAIR(missing_handover, (float *out, const float *in), out, in) {
	__shared__ float all[128];
	if (thread() < 128) {
		all[thread()] = in[index()];
		asm volatile("bar.arrive 3, 256;" ::: "memory");
		out[index()] = 0;
	} else {
		if (right)
			asm volatile("bar.sync 3, 256;" ::: "memory");
		out[index()] = all[255 - thread()];
	}
}
