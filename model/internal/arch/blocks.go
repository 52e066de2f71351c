package arch

import "gorgonia.org/gorgonia"

// Rows is a value of the forward pass, with one row for each row of a batch.
type Rows = *gorgonia.Node

// Blocks are the parts of forward passes. Their arguments name the slots whose weights they read, or describe them for messages. Sizes are
// those of the configuration.
type Blocks interface {
	Embed() Rows
	Norm(slot string, x Rows) Rows
	// Linear is a packed linear, with its bias if the model has one, and with an adapter's correction.
	Linear(layer int, name string, x Rows) Rows
	// QKNormRope normalises the heads of queries and keys, and rotates them by their positions.
	QKNormRope(slot string, qkv Rows) Rows
	// Rope only rotates them.
	Rope(what string, qkv Rows) Rows
	Attention(layer int, qkv Rows) Rows
	SwiGLU(what string, gateUp Rows) Rows
	GeGLU(what string, gateUp Rows) Rows
	Scale(what string, x Rows, factor float32) Rows
	Add(what string, x, branch Rows) Rows
	// AddBlock is Add at the end of a block: the one value of a block that recomputation always keeps.
	AddBlock(what string, x, branch Rows) Rows
}
