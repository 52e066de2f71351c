// Every kernel, once. The table of a variant and its type are made from this list.
#define GRPO_OPS(OP)         \
	OP(peak_fma)             \
	OP(peak_read)            \
	OP(load_rows)            \
	OP(pack_matrix)          \
	OP(unpack_matrix)        \
	OP(pack_rows)            \
	OP(pack_cols)            \
	OP(gemm)                 \
	OP(bias_grad)            \
	OP(gather_rows)          \
	OP(head_chunks)          \
	OP(head_weights)         \
	OP(head_combine)         \
	OP(head_jacobian)        \
	OP(head_grad_logits)     \
	OP(scale_rows)           \
	OP(embed)                \
	OP(embed_grad)           \
	OP(rms_norm)             \
	OP(rms_norm_grad_x)      \
	OP(rms_norm_grad_w)      \
	OP(inverse_rms)          \
	OP(qk_norm_rope)         \
	OP(qk_norm_rope_grad_x)  \
	OP(qk_norm_rope_grad_w)  \
	OP(swiglu)               \
	OP(swiglu_grad)          \
	OP(add)                  \
	OP(sum_squares)          \
	OP(adam)                 \
	OP(attention_pack)       \
	OP(attention)            \
	OP(attention_grad)       \
	OP(paged_write)          \
	OP(paged_attention)      \
	OP(draw)
