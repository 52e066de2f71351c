// Every kernel, once. The table of a variant and its type are made from this list.
#define GRPO_OPS(OP)  \
	OP(peak_fma)      \
	OP(peak_read)     \
	OP(load_rows)     \
	OP(pack_matrix)   \
	OP(unpack_matrix) \
	OP(pack_rows)     \
	OP(pack_cols)     \
	OP(gemm)          \
	OP(bias_grad)
