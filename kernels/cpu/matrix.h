// A matrix of weights is stored in panels of 32 rows (outputs), zero padded. In panel p, rows 32p … 32p+31,
//   F32:  column k is 32 floats;
//   BF16: columns 2j and 2j+1 are 32 lanes of 32 bits, column 2j in the high half, 2j+1 (or zero) in the low
//         half. So widening is a mask or a shift; and it is the layout for dot products of bf16 pairs, which
//         add the high half first: see pair.h.

enum { PAIR_BYTES = PANEL * 4, CODE_BYTES = PANEL * CODES / 2 };

INLINE int64_t pairs_of(int64_t cols) { return (cols + 1) / 2; }
INLINE int64_t code_groups(int64_t cols) { return (cols + CODES - 1) / CODES; } // of a matrix of four bits a weight: see nf4.h

INLINE int64_t panel_bytes(const grpo_matrix *m)
{
	if (m->scales)
		return code_groups(m->cols) * CODE_BYTES;
	int64_t bytes = m->dtype == GRPO_BF16 ? pairs_of(m->cols) * PAIR_BYTES : m->cols * PANEL * 4;
	return m->patches ? bytes / 4 * 3 : bytes; // see compress.h
}

INLINE char *panel_at(const grpo_matrix *m, int64_t p) { return (char *)m->panels + p * panel_bytes(m); }

// Four bits a weight: see nf4.h.
INLINE int is_quantised(const grpo_matrix *m) { return m->scales != NULL; }

// The scales of column k of a panel.
INLINE const float *scales_at(const grpo_matrix *m, int64_t panel, int64_t k)
{
	int64_t segments = m->cols / m->segment;
	return m->scales + (panel * segments + min64(k / m->segment, segments - 1)) * PANEL;
}

INLINE vf widen_first(vi pairs) { return (vf)(pairs & (int32_t)0xffff0000); }
INLINE vf widen_second(vi pairs) { return (vf)(pairs << 16); }

// The exact value, subnormal numbers included.
INLINE float float_of_half(uint16_t h)
{
	uint32_t sign = (uint32_t)(h >> 15) << 31, e = (h >> 10) & 31, f = h & 1023, bits;
	float x;
	if (e == 0) {
		x = (float)f * 0x1p-24f;
		return sign ? -x : x;
	}
	bits = sign | (e == 31 ? 255 : e + 112) << 23 | f << 13;
	memcpy(&x, &bits, 4);
	return x;
}

INLINE float float_of_bf16(uint16_t h)
{
	uint32_t bits = (uint32_t)h << 16;
	float x;
	memcpy(&x, &bits, 4);
	return x;
}

INLINE float decode(const char *src, int64_t i, int encoding)
{
	uint16_t h;
	float x;
	if (encoding == ENCODED_F32) {
		memcpy(&x, src + 4 * i, 4);
		return x;
	}
	memcpy(&h, src + 2 * i, 2);
	return encoding == ENCODED_F16 ? float_of_half(h) : float_of_bf16(h);
}
