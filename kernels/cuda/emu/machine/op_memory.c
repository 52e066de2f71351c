// Loads, stores, atomic operations and copies. Operand 0 is the address register, and Ins.variant its size (0: the offset is the address);
// operands from 1 on are values.
#include "machine.h"

#include <stdlib.h>
#include <string.h>

static inline u64 address(const Warp *w, const Ins *i, int l) {
	u64 base = i->variant == 8 ? REG(u64, 0)[l] : i->variant == 4 ? REG(u32, 0)[l] : 0;
	return base + (u64)i->offset;
}

static inline Space space_of(const Ins *i, u64 p) {
	return i->space != GENERIC ? i->space : p >> 32 == SHARED_WINDOW ? SHARED : p >> 32 == LOCAL_WINDOW ? LOCAL : GLOBAL;
}

static inline u8 *access_lane(Warp *w, const Ins *i, int l, u64 p, u32 n, AccessMode mode) {
	switch (space_of(i, p)) {
	case SHARED: return shared_lane(w, i, l, (u32)p, n, mode);
	case LOCAL: return local_lane(w, i, l, (u32)p, n, mode);
	default: return global_lane(w, i, l, p, n, mode);
	}
}

// access_lanes checks an access of lanes to adjacent bytes at once. NULL: the caller must check each lane by itself.
static inline u8 *access_lanes(Warp *w, const Ins *i, u32 l, u32 lanes, u64 p, u32 n, AccessMode mode) {
	switch (space_of(i, p)) {
	case SHARED: return shared_lanes(w, i, l, lanes, (u32)p, n, mode);
	case GLOBAL: return global_lanes(w, i, l, lanes, p, n, mode);
	default: return NULL;
	}
}

static inline void lane_addresses(const Warp *w, const Ins *i, u64 *p) {
	if (i->variant == 8)
		for (int l = 0; l < LANES; l++)
			p[l] = REG(u64, 0)[l] + (u64)i->offset;
	else if (i->variant == 4)
		for (int l = 0; l < LANES; l++)
			p[l] = REG(u32, 0)[l] + (u64)i->offset;
	else
		for (int l = 0; l < LANES; l++)
			p[l] = address(w, i, l);
}

// adjacent_lanes are the lanes whose address is `distance` bytes after that of the lane before.
static inline u32 adjacent_lanes(const u64 *p, u64 distance) {
	u32 all = 0;
	for (u32 l = 1; l < LANES; l++)
		all |= (u32)(p[l] == p[l - 1] + distance) << l;
	return all;
}

// run_length is the number of lanes from l on whose addresses are adjacent.
static inline u32 run_length(u32 following, u32 l) { return 1 + (u32)__builtin_ctzll(~((u64)following >> 1 >> l)); }

// copy_lanes copies an element of some lanes between registers and memory; strides are the bytes from lane to lane.
static inline void copy_lanes(u8 *to, u32 to_stride, const u8 *from, u32 from_stride, u32 lanes, u32 bytes) {
	if (to_stride == bytes && from_stride == bytes)
		memcpy(to, from, (size_t)lanes * bytes);
	for (u32 l = 0; (to_stride != bytes || from_stride != bytes) && l < lanes; l++)
		copy_number(to + l * to_stride, from + l * from_stride, bytes);
}

// load_words loads 32-bit registers; with stride 0 all lanes read the same address.
static inline void load_words(Warp *w, const Ins *i, u32 lane, u32 lanes, const u8 *p, u32 stride) {
	for (u32 e = 0; e < i->count; e++, p += 4) {
		u32 *to = REG(u32, 1 + e) + lane, word;
		memcpy(&word, p, 4);
		if (stride == 4)
			memcpy(to, p, (size_t)lanes * 4);
		else if (!stride)
			for (u32 l = 0; l < lanes; l++)
				to[l] = word;
		else
			for (u32 l = 0; l < lanes; l++)
				memcpy(&to[l], p + l * stride, 4);
	}
}

// widened reads one element, extended to the width of its register.
static inline u64 widened(const u8 *p, const Ins *i) {
	u64 v = 0;
	copy_number(&v, p, i->bytes);
	if (i->is_signed && i->width > i->bytes)
		v = (u64)((s64)(v << (64 - 8 * i->bytes)) >> (64 - 8 * i->bytes));
	return v;
}

// load_lanes loads the registers of lanes from memory.
static inline void load_lanes(Warp *w, const Ins *i, u32 lane, u32 lanes, const u8 *p, u32 stride) {
	if (i->bytes == 4 && i->width == 4) {
		load_words(w, i, lane, lanes, p, stride);
		return;
	}
	for (u32 e = 0; e < i->count; e++)
		for (u32 l = 0; l < lanes; l++) {
			u64 v = widened(p + e * i->bytes + l * stride, i);
			copy_number(REG(u8, 1 + e) + (lane + l) * i->width, &v, i->width);
		}
}

static inline void store_lanes(Warp *w, const Ins *i, u32 lane, u32 lanes, u8 *p, u32 stride) {
	for (u32 e = 0; e < i->count; e++) {
		const u8 *from = REG(u8, 1 + e) + lane * i->width;
		if (i->bytes == 4)
			copy_lanes(p + e * 4, stride, from, i->width, lanes, 4);
		else
			copy_lanes(p + e * i->bytes, stride, from, i->width, lanes, i->bytes);
	}
}

// Lanes often read or write adjacent bytes, or read the same bytes. Such lanes are checked together, which is much faster.
void load(Warp *w, const Ins *i, u32 mask) {
	u32 n = i->count * i->bytes, lanes, stride;
	u64 p[LANES]; // a copy, since a result may overwrite the address register
	lane_addresses(w, i, p);
	u32 next = adjacent_lanes(p, n) & mask, same = adjacent_lanes(p, 0) & mask;
	for (u32 l = 0; l < LANES; l += lanes) {
		lanes = 1;
		if (!(mask >> l & 1))
			continue;
		stride = (u64)same >> 1 >> l & 1 ? 0 : n;
		lanes = run_length(stride ? next : same, l);
		const u8 *from = lanes == 1 ? NULL : access_lanes(w, i, l, stride ? lanes : 1, p[l], n, READ);
		if (from)
			load_lanes(w, i, l, lanes, from, stride);
		for (u32 x = l; !from && x < l + lanes; x++)
			load_lanes(w, i, x, 1, access_lane(w, i, (int)x, p[x], n, READ), n);
	}
}

void load_parameter(Warp *w, const Ins *i, u32 mask) {
	for (u32 e = 0; e < i->count; e++) {
		u64 v = widened(w->block->launch->parameters + i->offset + e * i->bytes, i);
		for (int l = 0; l < LANES; l++)
			if (mask >> l & 1)
				copy_number(w->file + i->operand[1 + e] + l * i->width, &v, i->width);
	}
}

void store(Warp *w, const Ins *i, u32 mask) {
	u32 n = i->count * i->bytes, lanes;
	u64 p[LANES];
	lane_addresses(w, i, p);
	u32 next = adjacent_lanes(p, n) & mask;
	for (u32 l = 0; l < LANES; l += lanes) {
		lanes = 1;
		if (!(mask >> l & 1))
			continue;
		lanes = run_length(next, l);
		u8 *to = lanes == 1 ? NULL : access_lanes(w, i, l, lanes, p[l], n, WRITE);
		if (to)
			store_lanes(w, i, l, lanes, to, n);
		for (u32 x = l; !to && x < l + lanes; x++)
			store_lanes(w, i, x, 1, access_lane(w, i, (int)x, p[x], n, WRITE), n);
	}
}

// Atomic operations on host memory: lanes one after the other, blocks concurrently.
#define UPDATE(type, compute)                                                                                                    \
	do {                                                                                                                         \
		type *q = (type *)p, a = REG(type, 2)[l], c = *REG(type, 3), old = __atomic_load_n(q, __ATOMIC_RELAXED), r;              \
		(void)c, (void)a;                                                                                                        \
		do { r = (type)(compute); } while (!__atomic_compare_exchange_n(q, &old, r, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)); \
		REG(type, 1)[l] = old;                                                                                                   \
	} while (0)
#define ATOMIC_OPERATION(name, narrow, wide, compute)                                                                            \
	void name(Warp *w, const Ins *i, u32 mask) {                                                                                 \
		for (int l = 0; l < LANES; l++) {                                                                                        \
			if (!(mask >> l & 1))                                                                                                \
				continue;                                                                                                        \
			u8 *p = access_lane(w, i, l, address(w, i, l), i->bytes, UPDATE);                                                             \
			if (i->bytes == 4)                                                                                                   \
				UPDATE(narrow, compute);                                                                                         \
			else                                                                                                                 \
				UPDATE(wide, compute);                                                                                           \
		}                                                                                                                        \
	}
ATOMIC_OPERATION(update_add, u32, u64, old + a)
ATOMIC_OPERATION(update_min_u, u32, u64, a < old ? a : old)
ATOMIC_OPERATION(update_min_s, s32, s64, a < old ? a : old)
ATOMIC_OPERATION(update_max_u, u32, u64, a > old ? a : old)
ATOMIC_OPERATION(update_max_s, s32, s64, a > old ? a : old)
ATOMIC_OPERATION(update_and, u32, u64, old & a)
ATOMIC_OPERATION(update_or, u32, u64, old | a)
ATOMIC_OPERATION(update_xor, u32, u64, old ^ a)
ATOMIC_OPERATION(update_exchange, u32, u64, a)
ATOMIC_OPERATION(update_cas, u32, u64, old == a ? REG(__typeof__(old), 3)[l] : old)

// copy_partly copies fewer bytes than the size of the copy, and reports more.
static void copy_partly(Warp *w, const Ins *i, int l, u8 *to, u64 from, u32 n) {
	if (n > i->bytes)
		report(w, i, l, OUT_OF_BOUNDS, "it copies %u bytes into a place of %u; give at most as many", n, i->bytes);
	if (from % i->bytes)
		report(w, i, l, MISALIGNED, "its source 0x%llx is no multiple of %u", (unsigned long long)from, i->bytes);
	for (u32 part = 0, size; part < n; part += size) {
		size = n - part >= 16 ? 16 : n - part >= 8 ? 8 : n - part >= 4 ? 4 : n - part >= 2 ? 2 : 1;
		memcpy(to + part, global_lane(w, i, l, from + part, size, READ), size);
	}
}

static Copy *reserve_copies(Warp *w) {
	if (w->n_copies + LANES > w->capacity) {
		w->capacity = w->capacity * 2 + 256;
		w->copies = realloc(w->copies, sizeof *w->copies * (size_t)w->capacity);
		if (!w->copies)
			abort();
	}
	return w->copies + w->n_copies;
}

// copy_async reads the bytes and keeps them aside. They reach shared memory only when the lane waits for their group, so that a missing
// wait shows.
void copy_async(Warp *w, const Ins *i, u32 mask) {
	u64 to[LANES], from[LANES];
	const u32 *n = REG(u32, 2);
	u32 whole = 0, lanes;
	Copy *c = reserve_copies(w);
	lane_addresses(w, i, to);
	for (u32 l = 0; l < LANES; l++) {
		from[l] = REG(u64, 1)[l] + (u64)(s64)(s32)i->target;
		whole |= (u32)(n[l] == i->bytes) << l & mask;
	}
	u32 next = adjacent_lanes(from, i->bytes) & whole & whole << 1;
	for (u32 l = 0; l < LANES; l += lanes) {
		lanes = 1;
		if (!(mask >> l & 1))
			continue;
		lanes = run_length(next, l);
		const u8 *bytes = whole >> l & 1 ? global_lanes(w, i, l, lanes, from[l], i->bytes, READ) : NULL;
		for (u32 x = l; x < l + lanes; x++, c++) {
			*c = (Copy){.at = (u32)to[x], .group = w->committed_groups[x], .lane = (u8)x, .size = i->bytes};
			if (bytes && i->bytes == 16)
				memcpy(c->bytes, bytes + (x - l) * 16, 16);
			else if (bytes)
				copy_number(c->bytes, bytes + (x - l) * i->bytes, i->bytes);
			else
				copy_partly(w, i, (int)x, c->bytes, from[x], n[x]);
			shared_in_flight(w, i, (int)x, c->at, i->bytes);
		}
	}
	w->n_copies = (int)(c - w->copies);
}

void commit_group(Warp *w, const Ins *i, u32 mask) {
	(void)i;
	SLOW_LANE_LOOP(w->committed_groups[l]++);
}

static inline void deliver(const Copy *c, u8 *to) {
	if (c->size == 16)
		memcpy(to, c->bytes, 16);
	else
		copy_number(to, c->bytes, c->size);
}

// complete_copies delivers the copies of lanes in mask that are not among their last `keep` groups.
static void complete_copies(Warp *w, const Ins *i, u32 mask, u32 keep) {
	int kept = 0;
	for (int n = 0; n < w->n_copies; n++) {
		Copy *c = &w->copies[n];
		if (mask >> c->lane & 1 && c->group + keep < w->committed_groups[c->lane])
			deliver(c, shared_lane(w, i, c->lane, c->at, c->size, WRITE));
		else
			w->copies[kept++] = *c;
	}
	w->n_copies = kept;
}
void wait_group(Warp *w, const Ins *i, u32 mask) { complete_copies(w, i, mask, (u32)i->offset); }
void wait_all(Warp *w, const Ins *i, u32 mask) {
	SLOW_LANE_LOOP(w->committed_groups[l]++);
	complete_copies(w, i, mask, 0);
}

// Lane 8m + r has the address of row r of matrix m. Of each matrix, lane 4r + c gets numbers 2c and 2c + 1 of row r; transposed,
// of column r.
static inline void matrices(Warp *w, const Ins *i, u32 mask, bool transposed) {
	if (mask != ~0u)
		report(w, i, mask ? __builtin_ctz(mask) : 0, LANE_MASK, "ldmatrix needs all 32 lanes, and lanes 0x%08x are elsewhere", ~mask);
	u16 numbers[4][8][8];
	for (int m = 0; m < i->count; m++)
		for (int r = 0; r < 8; r++)
			memcpy(numbers[m][r], shared_lane(w, i, m * 8 + r, (u32)address(w, i, m * 8 + r), 16, READ), 16);
	for (int m = 0; m < i->count; m++) {
		if (!transposed)
			memcpy(REG(u32, 1 + m), numbers[m], sizeof numbers[m]);
		for (int l = 0; transposed && l < LANES; l++)
			REG(u32, 1 + m)[l] = (u32)numbers[m][(l & 3) * 2 + 1][l >> 2] << 16 | numbers[m][(l & 3) * 2][l >> 2];
	}
}
void load_matrix(Warp *w, const Ins *i, u32 mask) { matrices(w, i, mask, false); }
void load_matrix_transposed(Warp *w, const Ins *i, u32 mask) { matrices(w, i, mask, true); }
