// Products with 4-bit weights, for linear_codes.cu and linear_grad_x_codes.cu. Codes and scales are copied to shared memory, and decoded
// to bf16 only where a fragment is loaded. Fragments, and so results, are the same to the bit as with the same weights in bf16.
#pragma once
#include "codes.h"
#include "linear_tensor.h"

DEVICE void load_words(u32 *w, u32 from) {
	asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "r"(from) : "memory");
}
DEVICE float load_number(u32 from) {
	float x;
	asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
	return x;
}

// A stage has the rows of Bf16Weights: the codes of a row, then a scale for each 16 columns, which share it. The pitch is an odd number of
// 16 bytes, so that the lanes of an access hit different banks; so does a table of 16 values.
template <typename S, bool transposed> struct FourBits {
	static constexpr u32 rows = transposed ? S::depth : S::tile_columns, columns = transposed ? S::tile_columns : S::depth, scaled = 16,
		pitch = ((columns / 2 + columns / scaled * 4 + 15) / 16 | 1) * 16, bytes = rows * pitch;
	Codes w;
	u32 table; // address of the table of values in shared memory

	MEMBER FourBits(const Codes &w) : w(w) {
		__shared__ float values[16];
		table = shared_address(values);
		if (thread() < 16)
			copy4(table + 4 * thread(), w.values + thread(), 4); // they arrive with the first stage
	}

	MEMBER void fetch(u32 to, u32 row, u32 column, u32 all_rows, u32 all_columns) const {
		Codes w = this->w;
		asm volatile("" : "+l"(w.at), "+l"(w.scales), "+r"(all_columns)); // as in copy_tile
		for_each_item<columns / 32>([&](u32 r, u32 c) {
			bool in = row + r < all_rows && column + 32 * c < all_columns;
			copy16(to + r * pitch + 16 * c, w.at + (u64)(row + r) * row_bytes(all_columns) + (column / 2 + 16 * c), in ? 16 : 0);
		});
		for_each_item<columns / scaled>([&](u32 r, u32 c) {
			u32 first = column + scaled * c;
			bool in = row + r < all_rows && first < all_columns;
			copy4(to + r * pitch + columns / 2 + 4 * c, w.scales + (u64)(row + r) * (all_columns >> w.shift) + (first >> w.shift), in ? 4 : 0);
		});
	}
	// for_each_item distributes `items` items of every row over the threads.
	template <u32 items, typename Function> static MEMBER void for_each_item(Function act) {
		constexpr u32 all = rows * items;
		u32 t = thread_here();
		UNROLL for (u32 n = 0; n < all; n += S::threads)
			if (n + S::threads <= all || n + t < all)
				act((n + t) / items, (n + t) % items);
	}

	static MEMBER u32 fragment_offset(u32 across, u32 lane) {
		return transposed ? lane % 4 * 2 * pitch + across / 2 : (across + lane / 4) * pitch;
	}
	// code_shift is the right shift that brings a lane's code to the low end of a word, and scale_offset the distance from codes to their
	// scale. Both are computed where they are used, so that they take no registers.
	static MEMBER u32 code_shift() { return transposed ? thread_here() % 32 / 4 * 4 ^ 4 : thread_here() % 4 * 8; }
	static MEMBER u32 scale_offset() {
		u32 across = thread_here() / 32 / S::warps_down * S::fragments_across * 8;
		return transposed ? columns / 2 + across / scaled * 4 - across / 2 : columns / 2;
	}
	MEMBER void load_fragment(u32 *b, u32 from, u32 n, u32 d) const {
		u32 code_shift = FourBits::code_shift(), scale_offset = FourBits::scale_offset();
		if (transposed) // a word has the 8 columns of a fragment, one per lane; rows are inner numbers
			UNROLL for (u32 half = 0; half < 2; half++) {
				float weights[2][2];
				UNROLL for (u32 i = 0; i < 2; i++) { // one row after the other, which takes fewer registers
					u32 words[2], row = from + (d + 8 * half + i) * pitch + 8 * n;
					load_words(words, row);
					float scale = load_number(row + scale_offset - 4 * n);
					weights[0][i] = decoded(words[0] >> code_shift) * scale, weights[1][i] = decoded(words[1] >> code_shift) * scale;
				}
				UNROLL for (u32 i = 0; i < 2; i++)
					b[2 * i + half] = rounded(weights[i][0], weights[i][1]);
			}
		else // a lane's pair is one byte
			UNROLL for (u32 i = 0; i < 2; i++) {
				u32 words[2], row = from + (2 * n + i) * 8 * pitch;
				load_words(words, row + d / 2);
				float scale = load_number(row + scale_offset + d / scaled * 4);
				UNROLL for (u32 half = 0; half < 2; half++) {
					u32 pair = words[half] >> code_shift;
					b[2 * i + half] = rounded(decoded(pair >> 4) * scale, decoded(pair) * scale);
				}
			}
	}
	// decoded decodes the lowest four bits.
	MEMBER float decoded(u32 code) const { return load_number(table + (code & 15) * 4); }
};

#define CODES_PRODUCT(name, shape, tile, parts, transposed) \
	KERNEL THREADS(tile::threads) name##_##shape(float *out, u32 out_stride, const float *x, u32 x_stride, CODES_ARGUMENTS, \
		const float *bias, float alpha, u32 accumulate, u32 rows, u32 outer, u32 inner) { \
		product<tile, parts, transposed>({out, out_stride, bias, alpha, accumulate}, rows_of(x, x_stride), \
			FourBits<tile, transposed>(CODES), rows, outer, inner); \
	}
#define CODES_PRODUCTS(name, transposed) \
	CODES_PRODUCT(name##_bf16, 128x128, Large, 1, transposed) \
	CODES_PRODUCT(name##_bf16, 32x64, Middle, 1, transposed) \
	CODES_PRODUCT(name##_bf16, 16x32, Small, 1, transposed) \
	CODES_PRODUCT(name##_split, 128x128, Large, 3, transposed) \
	CODES_PRODUCT(name##_split, 32x64, Middle, 3, transposed) \
	CODES_PRODUCT(name##_split, 16x32, Small, 3, transposed)
