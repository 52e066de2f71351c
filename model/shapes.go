package model

import (
	"maps"
	"slices"

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
