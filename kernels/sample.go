package kernels

// Cache is a paged KV cache: blocks of keys and values, which sequences may share. The caller allocates
// blocks to sequences and keeps their block tables.
type Cache interface {
	Heads() Heads // that NewCache was given
	DType() DType // F32 or BF16
	Layers() int
	Blocks() int
	Bytes() int
}

// Paged maps the rows of a batch to a KV cache. Each sequence has one run of consecutive rows at consecutive
// positions, and a block table.
type Paged struct {
	Starts    Buffer // I32 [N+1]: run s is rows [Starts[s], Starts[s+1])
	Positions Buffer // I32 [T]
	Tables    Buffer // I32 [N, Stride]: block i of run s, in whose table blocks are of CacheBlock positions, at s·Stride + i
	N, Stride int
}

// BlocksAtOnce is the number of blocks that attention reads together, counted from the start of the sequence.
const BlocksAtOnce = 2

// SampleOps generate: attention over a cache, and draws from the head's distribution.
type SampleOps interface {
	// CacheBlock is the number of positions in one block of a KV cache. Attention always works through keys from the
	// start of their sequence, so that results over a cache and over packed sequences are the same bits.
	CacheBlock() int
	// NewCache allocates blocks × CacheBlock positions in each layer, for keys and values of type t: F32 or BF16.
	NewCache(h Heads, t DType, layers, blocks int) (Cache, error)
	// CopyBlocks copies, in every layer, block from[i] to block to[i], for i = 0 … n−1 one after the
	// other: a pair may read what an earlier one wrote, or write what it read.
	CopyBlocks(c Cache, to, from Buffer, n int)
	// PagedAttention writes the keys and values of qkv [T, a.Width()] to their places in a layer of the
	// cache, then does what Attention does, each row over positions up to its own: out [T, a.OutWidth()].
	// A row's results are those of Attention with the cache's type of keys and values, bit for bit. With a window, blocks
	// are read from the group of BlocksAtOnce in which the window of the run's first row begins: table entries before it
	// are not used.
	PagedAttention(out, qkv Buffer, c Cache, layer int, p Paged, a Attn, T int)
	// Gather: out [n, width] = the rows [n] of x.
	Gather(out, x, rows Buffer, width, n int)
	// Draw draws one token for each row of h [n, H] from the distribution that d describes over the
	// logits h · wᵀ, w [V, H], or scores one that is given.
	Draw(out DrawOut, h Buffer, w Matrix, d DrawIn, n int)
}

// DrawIn are the parameters of each draw. The mask is applied first, then top-k, then top-p over what is left, then min-p over
// what is left; ties go to the smaller token.
type DrawIn struct {
	Cap     float32 // soft cap of logits, as in Logits
	InvTemp Buffer  // F32 [n]; 0: greedy, with the log-probability at temperature 1
	Uniform Buffer  // F64 [n] in [0, 1): selects a token by the cumulative distribution in ascending order of tokens
	TopK    Buffer  // I32 [n]; 0: all
	TopP    Buffer  // F32 [n]; 1: all
	MinP    Buffer  // F32 [n]; 0: all
	// Allowed is the mask of each draw, see MaskWords; nil: all tokens. A mask without tokens draws an arbitrary one.
	Allowed Buffer // I32 [n, MaskWords(V)]
	// Given is a token to score instead of drawing one, or negative; nil: all are drawn.
	Given Buffer // I32 [n]
}

// MaskWords is the number of 32-bit words in a mask over a vocabulary: token t is allowed if bit t%32 of word t/32 is set.
func MaskWords(vocabulary int) int { return (vocabulary + 31) / 32 }

// MostTops is the maximum of DrawOut.Tops.
const MostTops = 128

// DrawOut is what Draw writes.
type DrawOut struct {
	Token Buffer // I32 [n]
	// LogP is the log-probability under the distribution that was drawn from. Without mask and truncation, and for a given
	// token, it is that of LogProb for the token and temperature, bit for bit.
	LogP Buffer // F32 [n]
	// Raw is the log-probability of LogProb for the token, which ignores mask and truncation, at the draw's temperature, or
	// at 1 if greedy. nil: not wanted.
	Raw Buffer // F32 [n]
	// TopToken are the Tops most likely tokens of that whole distribution in descending order, and TopLogP their
	// log-probabilities; Tops is at most the vocabulary. Both are nil if Tops is 0.
	Tops     int
	TopToken Buffer // I32 [n, Tops]
	TopLogP  Buffer // F32 [n, Tops]
}
