package arch

import (
	"maps"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
)

// shapes are the models that benchmarks build from random weights.
var shapes = map[string]Config{
	"tiny": {Architecture: "Qwen3ForCausalLM", Vocab: 2048, Hidden: 256, Intermediate: 768, Layers: 4,
		Heads: kernels.Heads{Q: 4, KV: 2, Dim: 64}, Eps: 1e-6, RopeTheta: 1e6, MaxPositions: 4096, TiedHead: true},
	"qwen3-0.6b": {Architecture: "Qwen3ForCausalLM", Vocab: 151936, Hidden: 1024, Intermediate: 3072, Layers: 28,
		Heads: kernels.Heads{Q: 16, KV: 8, Dim: 128}, Eps: 1e-6, RopeTheta: 1e6, MaxPositions: 40960, TiedHead: true},
	"qwen3-4b": {Architecture: "Qwen3ForCausalLM", Vocab: 151936, Hidden: 2560, Intermediate: 9728, Layers: 36,
		Heads: kernels.Heads{Q: 32, KV: 8, Dim: 128}, Eps: 1e-6, RopeTheta: 5e6, MaxPositions: 262144, TiedHead: true},
}

// Shapes are the names of them.
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

// ShapeNamed finds one of them.
func ShapeNamed(name string) (Config, error) {
	c, ok := shapes[name]
	if !ok {
		return c, badinput.Errorf("shape %q is not known; expected one of %q", name, Shapes())
	}
	return c, nil
}

// Work is an amount of arithmetic, in flops: products with the base weights, and everything else.
type Work struct{ Products, Rest float64 }

// Seconds is how long a machine takes that does so many flops of each kind a second.
func (w Work) Seconds(products, rest float64) float64 { return w.Products/products + w.Rest/rest }

// TrainingWork is the arithmetic of one token's training with frozen weights and an adapter of that rank:
// forward, gradient to the activations, and nothing twice. Attention is that of a sequence of T.
func (c Config) TrainingWork(rank, T int) Work {
	block, adapter := 0, 0
	for _, s := range c.BlockMatrices() {
		block += s.Size()
		for _, p := range s.Parts {
			adapter += rank * (p.Rows + s.Cols)
		}
	}
	attention := 2 * float64(T) * float64(c.Heads.OutWidth()) // causal: half of 4·T·width
	layers := float64(c.Layers)
	return Work{4*layers*float64(block) + 4*float64(c.Vocab*c.Hidden), layers * (6*float64(adapter) + 3.5*attention)}
}
