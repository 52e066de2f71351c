package kernels

// Backend is memory plus the operations of a decoder-only transformer and of its training.
type Backend interface {
	// Name says what this is and what it chose, for people: "cpu: avx512, 2 threads".
	Name() string
	// Order names the order in which sums are taken, and how they are rounded: backends with the same name for it
	// give the same bits, and a run goes on and is replayed only where the name is its own.
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
	// rows starts from zero, is taken in one order that depends on T alone, and is then scaled and added once.
	LinearGradW(dw Buffer, dy, x Cols, alpha float32, T int)
	// BiasGrad: db [N] += the sum of the rows of dy [T, N].
	BiasGrad(db Buffer, dy Cols, T int)
}

// LinearOpt are the ways in which a product is written.
type LinearOpt struct {
	Alpha      float32
	Accumulate bool
	Bias       Buffer // [N], or nil
}

// PointOps treat rows one by one.
type PointOps interface {
	// Embed: out [T, H] = the rows ids [T] of table [V, H].
	Embed(out Buffer, table Matrix, ids Buffer, T int)
	// EmbedGrad: dTable [V, H] row-major += the rows of dOut [T, H], each at its id.
	EmbedGrad(dTable, dOut, ids Buffer, V, H, T int)

	// RMSNorm: out [T, H] = weight [H] · x / sqrt(mean(x²) + eps).
	RMSNorm(out, x, weight Buffer, eps float32, H, T int)
	RMSNormGradX(dx, dy, x, weight Buffer, eps float32, H, T int)
	RMSNormGradW(dw, dy, x Buffer, eps float32, H, T int) // dw [H] +=

	// RopeTable: out [T, dim] = cos (first half of a row) and sin (second half) of
	// position · theta^(−2i/dim), i < dim/2, for positions [T]; angles are computed in double precision.
	RopeTable(out, positions Buffer, theta float64, dim, T int)
	// QKNormRope: out [T, h.Width()] from qkv of that shape: each query and key head is RMS-normalised
	// (weights qw, kw [h.Dim]) and then rotated by its row of rope (element i with element i + dim/2);
	// value heads are copied.
	QKNormRope(out, qkv, qw, kw, rope Buffer, eps float32, h Heads, T int)
	QKNormRopeGradX(dqkv, dout, qkv, qw, kw, rope Buffer, eps float32, h Heads, T int)
	QKNormRopeGradW(dqw, dkw, dout, qkv, rope Buffer, eps float32, h Heads, T int) // dqw, dkw [h.Dim] +=

	// SwiGLU: out [T, N] = silu(g) · u for the row (g | u) of gateUp [T, 2N].
	SwiGLU(out, gateUp Buffer, N, T int)
	SwiGLUGrad(dGateUp, dout, gateUp Buffer, N, T int)

	// Add: out [n] = a + b. out may be a or b.
	Add(out, a, b Buffer, n int)
}

// Heads is the shape of attention. A row of queries, keys and values is (Q heads | KV heads | KV heads).
type Heads struct {
	Q, KV, Dim int
}

// Width is the size of a row of queries, keys and values.
func (h Heads) Width() int { return (h.Q + 2*h.KV) * h.Dim }

// OutWidth is the size of a row of attention's output.
func (h Heads) OutWidth() int { return h.Q * h.Dim }

// Spans tell which rows read which. Span s is rows [Starts[s], Starts[s+1]). It goes on where span Parents[s] ends, and
// reads all rows of that one and of what that one goes on from; −1 begins a sequence. Spans come in preorder: what goes on
// from a span comes right after it, so that the rows that read a row stand together. Two spans that go on from the same
// one are two sequences that begin alike, and whose beginning is there once; all of them are a tree.
type Spans struct {
	Starts  Buffer // I32 [N+1], ascending, from 0 to T
	Parents Buffer // I32 [N], or nil where every span begins a sequence
	N       int
}

// AttentionOps are causal attention in each sequence of a packed batch: a row reads itself and the rows before it, and its
// numbers are the same bits whether other sequences share those rows or not. Query head i reads key-value head
// i / (Q/KV), and scores are scaled by 1/sqrt(Dim). Keys and values have a type, that of the cache which they would come
// from: F32, as they are, or BF16, rounded to the nearest, ties to even. With BF16 queries and the weights of the mean may
// be rounded too, and their gradients; at what scale is the backend's business. Sums are F32.
type AttentionOps interface {
	// Attention: out [T, h.OutWidth()], lse [T, h.Q] (log of the sum of the exponentiated scaled scores),
	// from qkv [T, h.Width()], whose keys and values are of type kv.
	Attention(out, lse, qkv Buffer, s Spans, h Heads, kv DType, T int)
	// AttentionGrad: dqkv [T, h.Width()] from dout, and from what Attention read and wrote. A number that is rounded
	// has the gradient of what it became. What the rows of a tree get depends on that tree alone.
	AttentionGrad(dqkv, dout, qkv, out, lse Buffer, s Spans, h Heads, kv DType, T int)
}

// HeadOps are the output head fused with the log-probability: logits never exist as a whole.
type HeadOps interface {
	// LogProb scores targets [T] under softmax(invTemp · h [T, H] · wᵀ), w [V, H]. A negative target
	// means that nobody asks: all its outputs are zero and nothing is computed.
	LogProb(out LogProbOut, h Buffer, w Matrix, targets Buffer, invTemp float32, T int)
	// LogProbGradX: dh [T, H] = dlogp [T] · the row of jacobian.
	LogProbGradX(dh, dlogp, jacobian Buffer, H, T int)
	// LogProbGradW: dw [V, H] row-major += dlogp · invTemp · (onehot(target) − softmax) ⊗ h, summed
	// over rows.
	LogProbGradW(dw, dlogp, h Buffer, w Matrix, targets, lse Buffer, invTemp float32, T int)
}

// LogProbOut is what LogProb writes.
type LogProbOut struct {
	LogP     Buffer // [T] natural logarithm of the target's probability
	Entropy  Buffer // [T] of the whole distribution, in nats
	LSE      Buffer // [T] log Σ exp(invTemp · logits)
	Jacobian Buffer // [T, H] d logp / d h, or nil when no gradient will be asked for
}

// TrainOps are the loss and the optimizer.
type TrainOps interface {
	// Loss writes dlogp [T] = d loss / d logp and the statistics of the rows that count.
	Loss(dlogp, stats Buffer, in LossIn, l Loss, T int)
	// SumSquares: out F64 [1] = Σ x², in a fixed order whatever the number of threads.
	SumSquares(out, x Buffer, n int)
	// Adam updates p, m, v [n] from the gradient g [n].
	Adam(p, m, v, g Buffer, a AdamStep, n int)
}
