// Loads, stores, atomic operations and copies. Ins.has is the size of the address's register (0: the offset is the address),
// operand 0 its place; values are in operands from 1 on.
#include "machine.h"

#include <stdlib.h>
#include <string.h>

static inline u64 address(const Warp *w, const Ins *i, int l) {
	u64 base = i->has == 8 ? REG(u64, 0)[l] : i->has == 4 ? REG(u32, 0)[l] : 0;
	return base + (u64)i->offset;
}

static inline u8 *at(Warp *w, const Ins *i, int l, u64 p, u32 n, How how) {
	switch (i->space) {
	case GLOBAL: return global_at(w, i, l, p, n, how);
	case SHARED: return shared_at(w, i, l, (u32)p, n, how);
	case LOCAL: return local_at(w, i, l, (u32)p, n, how);
	default: return any_at(w, i, l, p, n, how);
	}
}

// widened reads one element as its register will hold it.
static inline u64 widened(const u8 *p, const Ins *i) {
	u64 v = 0;
	memcpy(&v, p, i->bytes);
	if (i->is_signed && i->width > i->bytes)
		v = (u64)((s64)(v << (64 - 8 * i->bytes)) >> (64 - 8 * i->bytes));
	return v;
}

void load(Warp *w, const Ins *i, u32 mask) {
	u32 n = i->count * i->bytes;
	bool plain = i->bytes == 4 && i->width == 4;
	u64 addresses[LANES]; // taken first: a result may overwrite the address
	for (int l = 0; l < LANES; l++)
		addresses[l] = address(w, i, l);
	for (int l = 0; l < LANES; l++) {
		if (!(mask >> l & 1))
			continue;
		const u8 *p = at(w, i, l, addresses[l], n, READ);
		for (u32 e = 0; e < i->count; e++) {
			if (plain) {
				memcpy(&REG(u32, 1 + e)[l], p + 4 * e, 4);
			} else {
				u64 v = widened(p + e * i->bytes, i);
				memcpy(w->file + i->operand[1 + e] + l * i->width, &v, i->width);
			}
		}
	}
}

void load_parameter(Warp *w, const Ins *i, u32 mask) {
	for (u32 e = 0; e < i->count; e++) {
		u64 v = widened(w->block->launch->parameters + i->offset + e * i->bytes, i);
		for (int l = 0; l < LANES; l++)
			if (mask >> l & 1)
				memcpy(w->file + i->operand[1 + e] + l * i->width, &v, i->width);
	}
}

void store(Warp *w, const Ins *i, u32 mask) {
	u32 n = i->count * i->bytes;
	for (int l = 0; l < LANES; l++) {
		if (!(mask >> l & 1))
			continue;
		u8 *p = at(w, i, l, address(w, i, l), n, WRITE);
		for (u32 e = 0; e < i->count; e++)
			memcpy(p + e * i->bytes, w->file + i->operand[1 + e] + l * i->width, i->bytes);
	}
}

// Atomic operations on the host's memory: lanes one after the other, blocks at the same time.
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
			u8 *p = at(w, i, l, address(w, i, l), i->bytes, UPDATE);                                                             \
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

// copy_async takes the bytes and keeps them: they arrive when the lane waits for their group, and not before.
void copy_async(Warp *w, const Ins *i, u32 mask) {
	for (int l = 0; l < LANES; l++) {
		if (!(mask >> l & 1))
			continue;
		u32 to = (u32)address(w, i, l), n = REG(u32, 2)[l];
		u64 from = REG(u64, 1)[l] + (u64)(s64)(s32)i->target;
		if (n > i->bytes)
			find(w, i, l, OUT_OF_BOUNDS, "it copies %u bytes into a place of %u; give at most as many", n, i->bytes);
		if (from % i->bytes)
			find(w, i, l, MISALIGNED, "its source 0x%llx is no multiple of %u", (unsigned long long)from, i->bytes);
		if (w->n_copies == w->room) {
			w->room = w->room * 2 + 256;
			w->copies = realloc(w->copies, sizeof *w->copies * (size_t)w->room);
			if (!w->copies)
				abort();
		}
		Copy c = {.at = to, .group = w->groups[l], .lane = (u8)l, .size = i->bytes};
		if (n == 16)
			memcpy(c.bytes, global_at(w, i, l, from, 16, READ), 16);
		for (u32 part = n == 16 ? 16 : 0; part < n;) { // a source of another length is read in pieces
			u32 size = n - part >= 16 ? 16 : n - part >= 8 ? 8 : n - part >= 4 ? 4 : n - part >= 2 ? 2 : 1;
			memcpy(c.bytes + part, global_at(w, i, l, from + part, size, READ), size);
			part += size;
		}
		shared_will_arrive(w, i, l, to, i->bytes);
		w->copies[w->n_copies++] = c;
	}
}

void commit_group(Warp *w, const Ins *i, u32 mask) {
	(void)i;
	LANE_LOOP(w->groups[l]++);
}

// arrive delivers the copies of lanes in mask that are not among their last `keep` groups.
static void arrive(Warp *w, const Ins *i, u32 mask, u32 keep) {
	int kept = 0;
	for (int n = 0; n < w->n_copies; n++) {
		Copy *c = &w->copies[n];
		if (mask >> c->lane & 1 && c->group + keep < w->groups[c->lane])
			memcpy(shared_at(w, i, c->lane, c->at, c->size, WRITE), c->bytes, c->size);
		else
			w->copies[kept++] = *c;
	}
	w->n_copies = kept;
}
void wait_group(Warp *w, const Ins *i, u32 mask) { arrive(w, i, mask, (u32)i->offset); }
void wait_all(Warp *w, const Ins *i, u32 mask) {
	LANE_LOOP(w->groups[l]++);
	arrive(w, i, mask, 0);
}

// Lane 8m + r has the address of row r of matrix m. Of each matrix, lane 4r + c gets numbers 2c and 2c + 1 of row r; transposed,
// of column r.
static inline void matrices(Warp *w, const Ins *i, u32 mask, bool transposed) {
	if (mask != ~0u)
		find(w, i, mask ? __builtin_ctz(mask) : 0, LANE_MASK, "ldmatrix needs all 32 lanes, and lanes 0x%08x are elsewhere", ~mask);
	u16 numbers[4][8][8];
	for (int m = 0; m < i->count; m++)
		for (int r = 0; r < 8; r++)
			memcpy(numbers[m][r], shared_at(w, i, m * 8 + r, (u32)address(w, i, m * 8 + r), 16, READ), 16);
	for (int m = 0; m < i->count; m++) {
		if (!transposed)
			memcpy(REG(u32, 1 + m), numbers[m], sizeof numbers[m]);
		for (int l = 0; transposed && l < LANES; l++)
			REG(u32, 1 + m)[l] = (u32)numbers[m][(l & 3) * 2 + 1][l >> 2] << 16 | numbers[m][(l & 3) * 2][l >> 2];
	}
}
void load_matrix(Warp *w, const Ins *i, u32 mask) { matrices(w, i, mask, false); }
void load_matrix_transposed(Warp *w, const Ins *i, u32 mask) { matrices(w, i, mask, true); }
