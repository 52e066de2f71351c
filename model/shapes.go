package model

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

// Shapes are the names that Random takes.
func Shapes() []string { return slices.Sorted(maps.Keys(shapes)) }

// Product is one weight matrix of a shape.
type Product struct {
	Name            string
	Outputs, Inputs int
}

// Products are the matrices of one block and of the head of a shape.
func Products(shape string) ([]Product, error) {
	c, err := shapeNamed(shape)
	if err != nil {
		return nil, err
	}
	var all []Product
	for _, s := range c.layerSlots(0) {
		if !s.vector {
			all = append(all, Product{strings.TrimPrefix(s.name, "layers.0."), s.rows(), s.cols})
		}
	}
	return append(all, Product{"head", c.Vocab, c.Hidden}), nil
}

func shapeNamed(name string) (Config, error) {
	c, ok := shapes[name]
	if !ok {
		return c, badinput.Errorf("shape %q is not known; expected one of %q", name, Shapes())
	}
	return c, nil
}

// Flops is the arithmetic of one token's training with frozen weights and an adapter of that rank:
// forward, gradient to the activations, and nothing twice. Attention is that of a sequence of T.
func (c Config) Flops(rank, T int) float64 {
	block, adapter := 0, 0
	for _, s := range c.layerSlots(0) {
		if !s.vector {
			block += s.size()
			for _, p := range s.parts {
				adapter += rank * (p.rows + s.cols)
			}
		}
	}
	attention := 2 * float64(T) * float64(c.Heads.OutWidth()) // causal: half of 4·T·width
	perLayer := 4*float64(block) + 6*float64(adapter) + 3.5*attention
	return float64(c.Layers)*perLayer + 4*float64(c.Vocab*c.Hidden)
}

// LeastTime is the time in seconds below which no machine of that arithmetic and memory can run rows
// of sequences sequences through the frozen model: every product computed once, every weight and the
// cache of context positions read once. Logits are of one row of each sequence.
func (c Config) LeastTime(rows, context, sequences int, flops, bytesPerSecond float64) float64 {
	weights := c.Vocab * c.Hidden
	work := 2 * float64(weights) * float64(sequences)
	for _, s := range c.layerSlots(0) {
		if !s.vector {
			weights += c.Layers * s.size()
			work += 2 * float64(c.Layers*s.size()) * float64(rows)
		}
	}
	perSequence := rows / sequences
	attended := float64(context)
	if perSequence > 1 {
		attended = float64(perSequence) / 2 // causal
	}
	work += 4 * attended * float64(c.Layers*c.Heads.OutWidth()) * float64(rows)
	cached := 0
	if perSequence == 1 {
		cached = sequences * context * c.BlockBytes() / kernels.CacheBlock
	}
	return max(work/flops, (2*float64(weights)+float64(cached))/bytesPerSecond)
}
