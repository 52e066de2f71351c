// Package adapted maps LoRA targets to the packed linears of a decoder: the targets of a packed linear share its input, and are windows of
// its output.
package adapted

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
)

// Linear is a packed linear of every layer and the adapter targets that share its input.
type Linear struct {
	Slot    string
	Targets []lora.Target
}

// Linears are the packed linears that can be adapted.
var Linears = []Linear{
	{"qkv", []lora.Target{lora.Q, lora.K, lora.V}},
	{"o", []lora.Target{lora.O}},
	{"gate_up", []lora.Target{lora.Gate, lora.Up}},
	{"down", []lora.Target{lora.Down}},
}

// MostTargets is the largest number of targets of one of them.
const MostTargets = 3

// LinearIndex is the number of a packed linear among all of a model.
func LinearIndex(layer int, slot string) int {
	for i, l := range Linears {
		if l.Slot == slot {
			return layer*len(Linears) + i
		}
	}
	panic("model: no adapter has a target in " + slot)
}

// Share is the part of an adapter for one packed linear.
type Share struct {
	Windows []kernels.Window // of the linear's output, one per target
	A       lora.Entry       // the A matrices of all targets, which are adjacent and so form one matrix
	B       []lora.Entry
}

// ShareOf finds the share of a linear; nil if it is not adapted.
func ShareOf(l *lora.Layout, layer int, of Linear) (*Share, error) {
	s := &Share{}
	from := 0
	for _, t := range of.Targets {
		out, _ := l.Dims.Shape(t)
		if a, b, ok := l.Pair(layer, t); ok {
			if len(s.B) == 0 {
				s.A = a
				s.A.Rows = 0
			}
			if a.Offset != s.A.Offset+s.A.Len() {
				return nil, fmt.Errorf("%s is not beside the A matrix before it", a.Name)
			}
			s.A.Rows += a.Rows
			s.B = append(s.B, b)
			s.Windows = append(s.Windows, kernels.Window{From: from, N: out})
		}
		from += out
	}
	if len(s.B) == 0 {
		return nil, nil
	}
	return s, nil
}
