package arch

import (
	"fmt"
	"slices"
	"strings"
)

// Slot is one weight of the graph, in which q, k and v are packed into one matrix, and gate and up into another.
type Slot struct {
	Name   string // "layers.3.qkv"
	Vector bool   // a Buffer (norms, biases), else a Matrix
	Parts  []Part // in the order of the rows
	Cols   int
}

// Part is one tensor of the model's files: rows of a slot.
type Part struct {
	Tensor string // "model.layers.3.self_attn.q_proj.weight"
	Rows   int
}

// Rows is the number of rows of all parts.
func (s Slot) Rows() int {
	n := 0
	for _, p := range s.Parts {
		n += p.Rows
	}
	return n
}

// Size is the number of elements.
func (s Slot) Size() int { return s.Rows() * s.Cols }

// Bias tells whether it is a bias: a vector with one number per row.
func (s Slot) Bias() bool { return s.Vector && s.Cols == 1 }

// is reports whether the slot has that name in its layer.
func (s Slot) is(what string) bool { return strings.HasSuffix(s.Name, "."+what) }

// Shape is the shape of a part in the file.
func (s Slot) Shape(p Part) []int {
	switch {
	case !s.Vector:
		return []int{p.Rows, s.Cols}
	case s.Bias():
		return []int{p.Rows}
	}
	return []int{s.Cols} // a norm
}

// At names a slot of a layer.
func At(layer int, what string) string { return fmt.Sprintf("layers.%d.%s", layer, what) }

// Constructors of the slots of a layer from the names of its modules.

func normSlot(layer int, name string, cols int, modules ...string) Slot {
	parts := make([]Part, len(modules))
	for i, m := range modules {
		parts[i] = Part{m, 1}
	}
	return Slot{Name: At(layer, name), Vector: true, Cols: cols, Parts: tensors(layer, ".weight", parts)}
}

func linearSlot(layer int, name string, cols int, parts ...Part) Slot {
	return Slot{Name: At(layer, name), Cols: cols, Parts: tensors(layer, ".weight", parts)}
}

func biasSlot(layer int, name string, parts ...Part) Slot {
	return Slot{Name: At(layer, name), Vector: true, Cols: 1, Parts: tensors(layer, ".bias", parts)}
}

// tensors turns the names of a layer's modules into those of tensors in the model's files.
func tensors(layer int, kind string, modules []Part) []Part {
	named := make([]Part, len(modules))
	for i, m := range modules {
		named[i] = Part{fmt.Sprintf("model.layers.%d.%s%s", layer, m.Tensor, kind), m.Rows}
	}
	return named
}

// Embedding is the slot of the embedding, which a tied head reads too.
const Embedding = "embed_tokens"

// Slots lists every weight of the model in the order of the forward pass: the embedding, the blocks of its
// architecture, and the head. Embedding and head have the same names in all decoders.
func (c Config) Slots() []Slot {
	all := []Slot{{Name: Embedding, Cols: c.Hidden, Parts: []Part{{"model.embed_tokens.weight", c.Vocab}}}}
	for l := range c.Layers {
		all = append(all, c.arch().block(c, l)...)
	}
	all = append(all, Slot{Name: "norm", Vector: true, Cols: c.Hidden, Parts: []Part{{"model.norm.weight", 1}}})
	if !c.TiedHead {
		all = append(all, Slot{Name: "lm_head", Cols: c.Hidden, Parts: []Part{{"lm_head.weight", c.Vocab}}})
	}
	return all
}

// Tensors are the names of the tensors that the model reads.
func (c Config) Tensors() map[string]bool {
	all := map[string]bool{}
	for _, s := range c.Slots() {
		for _, p := range s.Parts {
			all[p.Tensor] = true
		}
	}
	return all
}

// HeadSlot is the name of the slot that the output head reads.
func (c Config) HeadSlot() string {
	if c.TiedHead {
		return Embedding
	}
	return "lm_head"
}

// BlockMatrices are the matrices of one block.
func (c Config) BlockMatrices() []Slot {
	return slices.DeleteFunc(c.arch().block(c, 0), func(s Slot) bool { return s.Vector })
}
