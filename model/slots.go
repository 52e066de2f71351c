package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// slot is one weight as the graph uses it: q, k and v are a single matrix there, gate and up another.
type slot struct {
	name   string // "layers.3.qkv"
	vector bool   // a Buffer (norms, biases), else a Matrix
	parts  []part // in the order of the rows
	cols   int
}

// part is one tensor of the model's files: rows of a slot.
type part struct {
	tensor string // "model.layers.3.self_attn.q_proj.weight"
	rows   int
}

func (s slot) rows() int {
	n := 0
	for _, p := range s.parts {
		n += p.rows
	}
	return n
}

func (s slot) size() int { return s.rows() * s.cols }

// bias tells the biases among the vectors: one number a row.
func (s slot) bias() bool { return s.vector && s.cols == 1 }

// is reports whether the slot is the one of that name in its layer.
func (s slot) is(what string) bool { return strings.HasSuffix(s.name, "."+what) }

// shape is the shape of a part in the file.
func (s slot) shape(p part) []int {
	switch {
	case !s.vector:
		return []int{p.rows, s.cols}
	case s.bias():
		return []int{p.rows}
	}
	return []int{s.cols} // a norm
}

// operand describes an allocated weight to the graph.
func (s slot) operand(buf kernels.Buffer, mat kernels.Matrix) *program.Operand {
	o := &program.Operand{Buf: buf, Mat: mat, Width: s.cols}
	if s.vector && len(s.parts) > 1 && !s.bias() {
		for i := range s.parts {
			o.Aux = append(o.Aux, buf.Slice(i*s.cols, (i+1)*s.cols))
		}
	}
	return o
}

// at names a slot of a layer.
func at(layer int, what string) string { return fmt.Sprintf("layers.%d.%s", layer, what) }

// The slots of a layer, from the names of their modules there.

func normSlot(layer int, name string, cols int, modules ...string) slot {
	parts := make([]part, len(modules))
	for i, m := range modules {
		parts[i] = part{m, 1}
	}
	return slot{name: at(layer, name), vector: true, cols: cols, parts: tensors(layer, ".weight", parts)}
}

func linearSlot(layer int, name string, cols int, parts ...part) slot {
	return slot{name: at(layer, name), cols: cols, parts: tensors(layer, ".weight", parts)}
}

func biasSlot(layer int, name string, parts ...part) slot {
	return slot{name: at(layer, name), vector: true, cols: 1, parts: tensors(layer, ".bias", parts)}
}

// tensors gives modules of a layer the names that they have in the model's files.
func tensors(layer int, kind string, modules []part) []part {
	named := make([]part, len(modules))
	for i, m := range modules {
		named[i] = part{fmt.Sprintf("model.layers.%d.%s%s", layer, m.tensor, kind), m.rows}
	}
	return named
}

// embedding is the slot of the embedding, which a tied head reads too.
const embedding = "embed_tokens"

// slots lists every weight of the model, in the order of the forward pass: between the embedding and the
// head, which all decoders call the same, the blocks of its architecture.
func (c Config) slots() []slot {
	all := []slot{{name: embedding, cols: c.Hidden, parts: []part{{"model.embed_tokens.weight", c.Vocab}}}}
	for l := range c.Layers {
		all = append(all, c.arch().block(c, l)...)
	}
	all = append(all, slot{name: "norm", vector: true, cols: c.Hidden, parts: []part{{"model.norm.weight", 1}}})
	if !c.TiedHead {
		all = append(all, slot{name: "lm_head", cols: c.Hidden, parts: []part{{"lm_head.weight", c.Vocab}}})
	}
	return all
}

// headSlot is the name of the slot that the output head reads.
func (c Config) headSlot() string {
	if c.TiedHead {
		return embedding
	}
	return "lm_head"
}

// blockMatrices are the matrices of one block.
func (c Config) blockMatrices() []slot {
	return slices.DeleteFunc(c.arch().block(c, 0), func(s slot) bool { return s.vector })
}

// group is a packed linear and the adapter targets that share its input.
type group struct {
	slot    string
	targets []lora.Target
}

var groups = []group{
	{"qkv", []lora.Target{lora.Q, lora.K, lora.V}},
	{"o", []lora.Target{lora.O}},
	{"gate_up", []lora.Target{lora.Gate, lora.Up}},
	{"down", []lora.Target{lora.Down}},
}
