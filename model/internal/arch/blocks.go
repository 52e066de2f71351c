package arch

import "gorgonia.org/gorgonia"

// Rows are a value of the forward pass: a row for each row of a batch.
type Rows = *gorgonia.Node

// Blocks are the parts that forward passes are made of. Each names the slots whose weights it reads, or what it is, for
// people. Sizes are those of the configuration.
type Blocks interface {
	Embed() Rows
	Norm(slot string, x Rows) Rows
	// Linear is a packed weight, its bias where the model has one, and what an adapter adds.
	Linear(layer int, name string, x Rows) Rows
	// QKNormRope normalises the heads of queries and keys, and turns them by their positions.
	QKNormRope(slot string, qkv Rows) Rows
	// Rope turns them by their positions alone.
	Rope(what string, qkv Rows) Rows
	Attention(layer int, qkv Rows) Rows
	SwiGLU(what string, gateUp Rows) Rows
	GeGLU(what string, gateUp Rows) Rows
	Scale(what string, x Rows, factor float32) Rows
	Add(what string, x, branch Rows) Rows
	// AddBlock is Add where a block ends: the one value of a block that is always kept.
	AddBlock(what string, x, branch Rows) Rows
}
