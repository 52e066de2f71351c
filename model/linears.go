package model

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model/internal/ops"
)

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

// linearNumber counts the packed linears of a model.
func linearNumber(layer int, slot string) int {
	for i, g := range groups {
		if g.slot == slot {
			return layer*len(groups) + i
		}
	}
	panic("model: no adapter has a target in " + slot)
}

// share is what an adapter has for one packed linear.
type share struct {
	windows []ops.Window // of the linear's output, one per target
	a       lora.Entry   // the A matrices of all of them, which lie side by side and are one
	b       []lora.Entry
}

// shareOf finds the share of a linear; nil where nothing of it is adapted.
func shareOf(l *lora.Layout, layer int, g group) (*share, error) {
	s := &share{}
	from := 0
	for _, t := range g.targets {
		out, _ := l.Dims.Shape(t)
		if a, b, ok := l.Pair(layer, t); ok {
			if len(s.b) == 0 {
				s.a = a
				s.a.Rows = 0
			}
			if a.Offset != s.a.Offset+s.a.Len() {
				return nil, fmt.Errorf("%s is not beside the A matrix before it", a.Name)
			}
			s.a.Rows += a.Rows
			s.b = append(s.b, b)
			s.windows = append(s.windows, ops.Window{From: from, N: out})
		}
		from += out
	}
	if len(s.b) == 0 {
		return nil, nil
	}
	return s, nil
}
