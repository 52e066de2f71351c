package kernels

// Cache holds the keys and values of many sequences, in blocks that sequences may share. Which block
// holds which positions is the caller's business.
type Cache interface {
	Heads() Heads // that NewCache was given
	DType() DType // F32 or BF16
	Layers() int
	Blocks() int
	Bytes() int
}

// Paged tells where the rows of a batch stand in a cache. Rows of one sequence are consecutive rows at
// consecutive positions; a sequence is one run of them.
type Paged struct {
	Starts    Buffer // I32 [N+1]: run s is rows [Starts[s], Starts[s+1])
	Positions Buffer // I32 [T]
	Tables    Buffer // I32 [N, Stride]: block i of run s, in whose table blocks are of CacheBlock positions, at s·Stride + i
	N, Stride int
}

// BlocksAtOnce is how many blocks of a cache attention looks at together, counted from the start of the sequence.
const BlocksAtOnce = 2

// SampleOps generate: attention over a cache, and draws from the head's distribution.
type SampleOps interface {
	// CacheBlock is how many positions of a sequence one block of a cache holds. Attention always works
	// through keys from the start of their sequence, so that a cached row and a packed one are the same numbers.
	CacheBlock() int
	// NewCache makes room for blocks × CacheBlock positions in each of layers, for keys and values of type t: F32 or BF16.
	NewCache(h Heads, t DType, layers, blocks int) (Cache, error)
	// CopyBlocks copies, in every layer, block from[i] to block to[i], for i = 0 … n−1 one after the
	// other: a pair may read what an earlier one wrote, or write what it read.
	CopyBlocks(c Cache, to, from Buffer, n int)
	// PagedAttention writes the keys and values of qkv [T, a.Width()] to their places in a layer of the
	// cache, then does what Attention does, each row over positions up to its own: out [T, a.OutWidth()].
	// The numbers of a row are those of Attention over keys and values of the cache's type, bit for bit. With a window, the
	// first blocks that are read are the BlocksAtOnce in which that of the run's first row begins: the places of the table before
	// may have any block.
	PagedAttention(out, qkv Buffer, c Cache, layer int, p Paged, a Attn, T int)
	// Gather: out [n, width] = the rows [n] of x.
	Gather(out, x, rows Buffer, width, n int)
	// Draw draws one token for each row of h [n, H] from the distribution that d describes over the
	// logits h · wᵀ, w [V, H], or scores one that is given.
	Draw(out DrawOut, h Buffer, w Matrix, d DrawIn, n int)
}

// DrawIn says how each row is drawn. What may not come is left out first, then truncations apply in this order: top-k, top-p over
// what is left, min-p over what is left; ties go to the smaller token.
type DrawIn struct {
	Cap     float32 // bends logits, as in Logits
	InvTemp Buffer  // F32 [n]; 0: the most likely token, with its log-probability at temperature 1
	Uniform Buffer  // F64 [n] in [0, 1): which token of the cumulative distribution in ascending order of tokens
	TopK    Buffer  // I32 [n]; 0: all
	TopP    Buffer  // F32 [n]; 1: all
	MinP    Buffer  // F32 [n]; 0: all
	// Allowed has a bit for each token, as MaskWords says; nil: all may come. A row that allows nothing gets some token.
	Allowed Buffer // I32 [n, MaskWords(V)]
	// Given are tokens that are scored, where they are not negative, and nothing is drawn; nil: all are drawn.
	Given Buffer // I32 [n]
}

// MaskWords is how many words of 32 bits say which tokens of a vocabulary may come: bit t%32 of word t/32 is token t's.
func MaskWords(vocabulary int) int { return (vocabulary + 31) / 32 }

// MostTops is how many of the most likely tokens Draw tells at the most.
const MostTops = 128

// DrawOut is what Draw writes.
type DrawOut struct {
	Token Buffer // I32 [n]
	// LogP is the log-probability under the distribution that was drawn from. Where everything may come it is
	// the LogP of LogProb for that token and temperature, bit for bit; so it is of a token that was given.
	LogP Buffer // F32 [n]
	// Raw is the LogP of LogProb for that token, whatever may come: under the whole distribution at the row's temperature, or at 1
	// where that is 0. Nil, where nobody asks.
	Raw Buffer // F32 [n]
	// TopToken are the most likely tokens of that distribution, from the most likely on, and TopLogP their log-probabilities:
	// as many as Tops says, and as the vocabulary has at the most. Where Tops is 0 both are nil.
	Tops     int
	TopToken Buffer // I32 [n, Tops]
	TopLogP  Buffer // F32 [n, Tops]
}
