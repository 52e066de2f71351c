package arch

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
)

// shapes are the shapes of published models that benchmarks build from random weights.
var shapes = map[string]Config{
	"tiny": {Architecture: "Qwen3ForCausalLM", Vocab: 2048, Hidden: 256, Intermediate: 768, Layers: 4,
		Heads: kernels.Heads{Q: 4, KV: 2, Dim: 64}, Eps: 1e-6, RopeTheta: 1e6, MaxPositions: 4096, TiedHead: true},
	"qwen3-0.6b": {Architecture: "Qwen3ForCausalLM", Vocab: 151936, Hidden: 1024, Intermediate: 3072, Layers: 28,
		Heads: kernels.Heads{Q: 16, KV: 8, Dim: 128}, Eps: 1e-6, RopeTheta: 1e6, MaxPositions: 40960, TiedHead: true},
	"qwen3-1.7b": {Architecture: "Qwen3ForCausalLM", Vocab: 151936, Hidden: 2048, Intermediate: 6144, Layers: 28,
		Heads: kernels.Heads{Q: 16, KV: 8, Dim: 128}, Eps: 1e-6, RopeTheta: 1e6, MaxPositions: 40960, TiedHead: true},
	"qwen3-4b": {Architecture: "Qwen3ForCausalLM", Vocab: 151936, Hidden: 2560, Intermediate: 9728, Layers: 36,
		Heads: kernels.Heads{Q: 32, KV: 8, Dim: 128}, Eps: 1e-6, RopeTheta: 5e6, MaxPositions: 262144, TiedHead: true},
	"qwen2.5-1.5b": {Architecture: "Qwen2ForCausalLM", Vocab: 151936, Hidden: 1536, Intermediate: 8960, Layers: 28,
		Heads: kernels.Heads{Q: 12, KV: 2, Dim: 128}, Eps: 1e-6, RopeTheta: 1e6, MaxPositions: 32768, TiedHead: true},
	"qwen2.5-7b": {Architecture: "Qwen2ForCausalLM", Vocab: 152064, Hidden: 3584, Intermediate: 18944, Layers: 28,
		Heads: kernels.Heads{Q: 28, KV: 4, Dim: 128}, Eps: 1e-6, RopeTheta: 1e6, MaxPositions: 32768},
	"llama3.2-1b": {Architecture: "LlamaForCausalLM", Vocab: 128256, Hidden: 2048, Intermediate: 8192, Layers: 16,
		Heads: kernels.Heads{Q: 32, KV: 8, Dim: 64}, Eps: 1e-5, RopeTheta: 5e5, RopeScaling: llama3Scaling(32), MaxPositions: 131072,
		TiedHead: true},
	"llama3.1-8b": {Architecture: "LlamaForCausalLM", Vocab: 128256, Hidden: 4096, Intermediate: 14336, Layers: 32,
		Heads: kernels.Heads{Q: 32, KV: 8, Dim: 128}, Eps: 1e-5, RopeTheta: 5e5, RopeScaling: llama3Scaling(8), MaxPositions: 131072},
	"mistral-7b": {Architecture: "MistralForCausalLM", Vocab: 32000, Hidden: 4096, Intermediate: 14336, Layers: 32,
		Heads: kernels.Heads{Q: 32, KV: 8, Dim: 128}, Eps: 1e-5, RopeTheta: 1e4, MaxPositions: 32768, Window: 4096},
	"gemma2-2b": gemma2Shape(Config{Hidden: 2304, Intermediate: 9216, Layers: 26, Heads: kernels.Heads{Q: 8, KV: 4, Dim: 256}}),
	"gemma2-9b": gemma2Shape(Config{Hidden: 3584, Intermediate: 14336, Layers: 42, Heads: kernels.Heads{Q: 16, KV: 8, Dim: 256}}),
}

// llama3Scaling is the RoPE scaling of Llama 3.1 and later.
func llama3Scaling(factor float64) Scaling {
	return Scaling{Type: "llama3", Factor: factor, Original: 8192, LowFactor: 1, HighFactor: 4}
}

// gemma2Shape adds what all sizes of Gemma 2 have in common.
func gemma2Shape(c Config) Config {
	c.Architecture, c.Vocab, c.Eps, c.RopeTheta, c.MaxPositions, c.TiedHead = gemma2.name, 256000, 1e-6, 1e4, 8192, true
	c.Window, c.QueryScalar, c.ScoreCap, c.LogitCap, c.DType = 4096, float64(c.Heads.Dim), 50, 30, "bfloat16"
	return c
}

// Shapes are their names.
func Shapes() []string { return slices.Sorted(maps.Keys(shapes)) }

// Product is one weight matrix of a shape.
type Product struct {
	Name            string
	Outputs, Inputs int
}

// Products are the matrices of one block and of the head of a shape.
func Products(shape string) ([]Product, error) {
	c, err := ShapeNamed(shape)
	if err != nil {
		return nil, err
	}
	var all []Product
	for _, s := range c.BlockMatrices() {
		all = append(all, Product{strings.TrimPrefix(s.Name, "layers.0."), s.Rows(), s.Cols})
	}
	return append(all, Product{"head", c.Vocab, c.Hidden}), nil
}

// ShapeNamed finds one of them; NAME/N is N layers of it.
func ShapeNamed(name string) (Config, error) {
	whole, layers, cut := strings.Cut(name, "/")
	c, ok := shapes[whole]
	if cut {
		n, err := strconv.Atoi(layers)
		c.Layers, ok = n, ok && err == nil && n > 0 && n <= maxLayers
	}
	if !ok {
		return c, badinput.Errorf("shape %q is not known; expected one of %q, or NAME/N for N layers of it, up to %d", name, Shapes(), maxLayers)
	}
	for l := range c.Layers {
		if c.Window > 0 {
			c.Sliding = append(c.Sliding, c.Architecture != gemma2.name || l%2 == 0)
		}
	}
	return c, nil
}

// Work is an amount of arithmetic, in flops: products for which a machine may have bf16 instructions, and everything else.
type Work struct{ Products, Rest float64 }

// Kind is where work of a kind is counted.
func (w *Work) Kind(products bool) *float64 {
	if products {
		return &w.Products
	}
	return &w.Rest
}

// Seconds is how long a machine takes, given its flops per second for each kind.
func (w Work) Seconds(products, rest float64) float64 { return w.Products/products + w.Rest/rest }

// Reads is how many positions the last of T rows attends to, and how many a row does on average, if each attends to those up to its own
// or in its window. Both are averages over the layers.
func (c Config) Reads(T int) (last, mean float64) {
	for l := range c.Layers {
		n, window := float64(T), float64(c.Attn(l).Window)
		if window > 0 {
			n = min(n, window)
		}
		last, mean = last+n, mean+n-n*n/float64(2*T)
	}
	return last / float64(c.Layers), mean / float64(c.Layers)
}

// TrainingFlops are the flops for training on one token, with frozen weights and an adapter of that rank: forward, gradients, and no
// recomputation. Attention is that of a sequence of T.
func (c Config) TrainingFlops(rank, T int) (weights, adapter, attention float64) {
	block, low := 0, 0
	for _, s := range c.BlockMatrices() {
		block += s.Size()
		for _, p := range s.Parts {
			low += rank * (p.Rows + s.Cols)
		}
	}
	layers := float64(c.Layers)
	_, read := c.Reads(T)
	causal := 4 * read * float64(c.Heads.OutWidth())
	return 4 * (layers*float64(block) + float64(c.Vocab*c.Hidden)), 6 * layers * float64(low), 3.5 * layers * causal
}
