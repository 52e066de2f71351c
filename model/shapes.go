package model

import (
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/arch"
)

// Config is what config.json says of a model's shape. Its fields and methods are those of model/internal/arch.Config, as go doc shows
// them; LoRADims are the sizes that package lora asks for.
type Config = arch.Config

// ReadConfig reads config.json of the model in dir, ParseConfig the text of one.
var ReadConfig, ParseConfig = arch.ReadConfig, arch.ParseConfig

// Shapes are the names that Random takes, ShapeNamed returns the configuration of one, and Products the matrices of one block and of
// the head of such a shape.
var Shapes, ShapeNamed, Products = arch.Shapes, arch.ShapeNamed, arch.Products

// Work is an amount of arithmetic.
type Work = arch.Work

// TrainingWork is the arithmetic of training on one token of a sequence of T tokens: with an adapter of that rank, or of all weights if
// the policy is fully trained.
func (p *Policy) TrainingWork(rank, T int) (work Work) {
	weights, learned, attention := p.TrainingFlops(rank, T)
	work.Products = weights
	rounds := p.AdapterPrecision == BF16
	if _, whole := p.trained.(*masters); whole {
		learned, rounds = weights/2, p.Precision == BF16 && p.order == kernels.Tiles // gradients of the weights
	}
	*work.Kind(rounds) += learned
	*work.Kind(p.roundsAttention()) += attention
	return work
}

// roundsAttention reports whether attention multiplies bf16 numbers.
func (p *Policy) roundsAttention() bool {
	return p.Cache == BF16 && (p.order == kernels.Tiles || kernels.RoundsUsually(p.b))
}

// SamplingWork is the arithmetic of running so many rows, of so many sequences, through the frozen model, and the bytes that
// must be read for it: all weights as they are stored, and the KV cache of context positions of each sequence. Logits
// are computed for one row of each sequence.
func (p *Policy) SamplingWork(rows, context, sequences int) (work Work, bytes float64) {
	c := p.Config
	weights := p.WeightBytes()
	if !c.TiedHead {
		weights -= p.weights.operands[arch.Embedding].Mat.Bytes() // only a few of its rows are read
	}
	work.Products = 2 * float64(c.Vocab*c.Hidden) * float64(sequences)
	for _, s := range c.BlockMatrices() {
		work.Products += 2 * float64(c.Layers*s.Size()) * float64(rows)
	}
	last, attended := c.Reads(context)
	cached := 0.0
	if rows == sequences {
		attended, cached = last, last*float64(sequences*p.BlockBytes())/float64(p.CacheBlock())
	}
	*work.Kind(p.roundsAttention()) += 4 * attended * float64(c.Layers*c.Heads.OutWidth()) * float64(rows)
	return work, float64(weights) + cached
}
