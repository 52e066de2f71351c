package kernels

import "math"

// Backend is memory plus the operations of a decoder-only transformer and of its training.
type Backend interface {
	// Name describes the backend for people: "cpu: avx512, 2 threads".
	Name() string
	// Order identifies the order of sums and their rounding: backends with the same Order give the same bits. A run
	// is resumed and replayed only on a backend with the Order that it was trained with.
	Order() string
	Memory
	LinearOps
	PointOps
	AttentionOps
	HeadOps
	TrainOps
	SampleOps
}

// LinearOps are products with a weight matrix w [N, K].
type LinearOps interface {
	// Linear: out [T, N] = (o.Accumulate ? out : 0) + o.Alpha · x [T, K] · wᵀ + o.Bias [N].
	// Each sum over K starts from zero, is taken in one order that depends on K and the type of w alone, and
	// is then scaled and added once.
	Linear(out, x Cols, w Matrix, o LinearOpt, T int)
	// LinearGradX: dx [T, K] = (o.Accumulate ? dx : 0) + o.Alpha · dy [T, N] · w. The sum over N is
	// taken in one order that depends on N and the type of w alone. o.Bias must be nil.
	LinearGradX(dx, dy Cols, w Matrix, o LinearOpt, T int)
	// LinearGradW: dw [N, K] row-major += alpha · dyᵀ · x, for dy [T, N] and x [T, K]. The sum over
	// rows starts from zero, is taken in one order that depends on T and factors alone, and is then scaled and added once.
	// factors is F32, or BF16: then dy and x may be rounded to the nearest first, ties to even.
	LinearGradW(dw Buffer, dy, x Cols, alpha float32, factors DType, T int)
	// BiasGrad: db [N] += the sum of the rows of dy [T, N].
	BiasGrad(db Buffer, dy Cols, T int)
}

// LinearOpt are options of a product: a scale, a bias, and whether it is added to the output.
type LinearOpt struct {
	Alpha      float32
	Accumulate bool
	Bias       Buffer // [N], or nil
}

// PointOps work on each row by itself. If the backend is a Narrower, activations of the forward pass that gradients of inputs read (x of
// norms and of Rope, qkv of QKNormRope, gateUp) may be BF16: results are those of the same rows in F32.
type PointOps interface {
	// Embed: out [T, H] = the rows ids [T] of table [V, H].
	Embed(out Buffer, table Matrix, ids Buffer, T int)
	// EmbedGrad: dTable [V, H] row-major += the rows of dOut [T, H], each at its id.
	EmbedGrad(dTable, dOut, ids Buffer, V, H, T int)

	// RMSNorm: out [T, H] = (n.Offset + weight [H]) · x / sqrt(mean(x²) + n.Eps).
	RMSNorm(out, x, weight Buffer, n Norm, H, T int)
	RMSNormGradX(dx, dy, x, weight Buffer, n Norm, H, T int)
	RMSNormGradW(dw, dy, x Buffer, n Norm, H, T int) // dw [H] +=

	// RopeTable: out [T, dim] = scale times cos (first half of a row) and sin (second half) of
	// position · frequency, for positions [T] and frequencies F64 [dim/2]; all in double precision.
	RopeTable(out, positions, frequencies Buffer, scale float64, dim, T int)
	// Rope: out [T, a.Width()] from x of that shape: each query and key head is rotated by its row of rope (element i with
	// element i + dim/2), with back in the opposite direction, which is the gradient; value heads are copied.
	Rope(out, x, rope Buffer, back bool, a Attn, T int)
	// QKNormRope: out [T, a.Width()] from qkv of that shape: each query and key head is RMS-normalised
	// (weights qw, kw [a.Dim]) and then rotated by its row of rope (element i with element i + dim/2);
	// value heads are copied.
	QKNormRope(out, qkv, qw, kw, rope Buffer, eps float32, a Attn, T int)
	QKNormRopeGradX(dqkv, dout, qkv, qw, kw, rope Buffer, eps float32, h Heads, T int)
	QKNormRopeGradW(dqw, dkw, dout, qkv, rope Buffer, eps float32, h Heads, T int) // dqw, dkw [h.Dim] +=

	// SwiGLU: out [T, N] = silu(g) · u for the row (g | u) of gateUp [T, 2N].
	SwiGLU(out, gateUp Buffer, N, T int)
	SwiGLUGrad(dGateUp, dout, gateUp Buffer, N, T int)
	// GeGLU: out [T, N] = gelu(g) · u for the row (g | u) of gateUp [T, 2N], where gelu(g) is
	// g/2 · (1 + tanh(sqrt(2/π) · (g + 0.044715·g³))).
	GeGLU(out, gateUp Buffer, N, T int)
	GeGLUGrad(dGateUp, dout, gateUp Buffer, N, T int)

	// Scale: out [n] = by · x. out may be x.
	Scale(out, x Buffer, by float32, n int)
	// Add: out [n] = a + b. out may be a or b.
	Add(out, a, b Buffer, n int)
}

// Norm are the parameters of a normalisation.
type Norm struct {
	Eps    float32
	Offset float32 // added to the weight: 1 for models that store weight − 1, else 0
}

// Heads is the shape of attention. A row of queries, keys and values is (Q heads | KV heads | KV heads).
type Heads struct {
	Q, KV, Dim int
}

// Width is the size of a row of queries, keys and values.
func (h Heads) Width() int { return (h.Q + 2*h.KV) * h.Dim }

// OutWidth is the size of a row of attention's output.
func (h Heads) OutWidth() int { return h.Q * h.Dim }

// Attn is the shape of attention, with the scaling and capping of scores and the sliding window.
type Attn struct {
	Heads
	Scale  float32 // of scores; 0: 1/sqrt(Dim)
	Cap    float32 // soft cap of scaled scores: Cap · tanh(score / Cap); 0: none
	Window int     // sliding window: the number of rows that a row attends to, itself included; 0: no limit
}

// Factor is the scale of scores, with the default filled in.
func (a Attn) Factor() float32 {
	if a.Scale != 0 {
		return a.Scale
	}
	return 1 / float32(math.Sqrt(float64(a.Dim)))
}

// Spans describe sequences packed into rows, which may share prefixes. Span s is rows [Starts[s], Starts[s+1]). It continues
// span Parents[s], and attends to all rows of that span and of its ancestors; −1 starts a sequence. Two spans with the same
// parent are two sequences with a common prefix, whose rows exist once: the spans are a forest. They are in preorder, children
// right after their parent, so that all rows that attend to a row are contiguous.
type Spans struct {
	Starts  Buffer // I32 [N+1], ascending, from 0 to T
	Parents Buffer // I32 [N], or nil where every span begins a sequence
	N       int
}

// AttentionOps are causal attention in each sequence of a packed batch: a row attends to itself and the rows before it, within
// the window. Its bits are the same whether other sequences share those rows or not. Query head i uses key-value head
// i / (Q/KV), grouped-query attention. Keys and values are used in the type of the KV cache, so that training and sampling
// agree: F32, or BF16, rounded to the nearest, ties to even. With BF16 queries and attention weights may be rounded, too, and
// their gradients, at a scale that the backend chooses. Sums are F32.
type AttentionOps interface {
	// Attention: out [T, a.OutWidth()], lse [T, a.Q] (log of the sum of the exponentiated scores),
	// from qkv [T, a.Width()], whose keys and values are of type kv.
	Attention(out, lse, qkv Buffer, s Spans, a Attn, kv DType, T int)
	// AttentionGrad: dqkv [T, a.Width()] from dout, and from what Attention read and wrote. Rounding has the gradient 1
	// (straight-through). The gradients of a tree of spans depend on that tree alone.
	AttentionGrad(dqkv, dout, qkv, out, lse Buffer, s Spans, a Attn, kv DType, T int)
}

// HeadOps are the output head fused with the log-probability: logits never exist as a whole.
type HeadOps interface {
	// LogProb scores targets [T] under the softmax of the logits h [T, H] · wᵀ, w [V, H], after l has capped and scaled
	// them. A row with a negative target is skipped: its outputs are zero.
	LogProb(out LogProbOut, h Buffer, w Matrix, targets Buffer, l Logits, T int)
	// LogProbGradX: dh [T, H] = dlogp [T] · the row of jacobian.
	LogProbGradX(dh, dlogp, jacobian Buffer, H, T int)
	// LogProbGradW: dw [V, H] row-major += dlogp · (onehot(target) − softmax) · slope ⊗ h, summed over rows. slope is the
	// derivative of capping and scaling. For w of BF16Rounding both factors may be rounded to the nearest first.
	LogProbGradW(dw, dlogp, h Buffer, w Matrix, targets, lse Buffer, l Logits, T int)
}

// Logits are the soft cap and the temperature, applied to logits in this order before the softmax.
type Logits struct {
	InvTemp float32
	Cap     float32 // soft cap: Cap · tanh(logit / Cap); 0: none
}

// LogProbOut is what LogProb writes.
type LogProbOut struct {
	LogP     Buffer // [T] natural logarithm of the target's probability
	Entropy  Buffer // [T] of the whole distribution, in nats
	LSE      Buffer // [T] log Σ exp(logits)
	Jacobian Buffer // [T, H] d logp / d h, or nil when no gradient will be asked for
}

// TrainOps are the loss and the optimizer.
type TrainOps interface {
	// Loss writes dlogp [T] = d loss / d logp and the statistics of the rows with a weight.
	Loss(dlogp, stats Buffer, in LossIn, l Loss, T int)
	// SumSquares: out F64 [1] = Σ x², in a fixed order whatever the number of threads.
	SumSquares(out, x Buffer, n int)
	// Adam updates p, m, v [n] from the gradient g [n].
	Adam(p, m, v, g Buffer, a AdamStep, n int)
}
