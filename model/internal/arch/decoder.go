package arch

import (
	"math"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Parts that several families share.

// biases says which matrices of a layer have a bias.
type biases struct{ qkv, o, mlp bool }

// linearSlots are a packed matrix and its bias, if it has one.
func linearSlots(l int, name string, cols int, bias bool, parts ...Part) []Slot {
	all := []Slot{linearSlot(l, name, cols, parts...)}
	if bias {
		all = append(all, biasSlot(l, name+"_bias", parts...))
	}
	return all
}

func qkvSlots(c Config, l int, bias bool) []Slot {
	h := c.Heads
	return linearSlots(l, "qkv", c.Hidden, bias,
		Part{"self_attn.q_proj", h.Q * h.Dim}, Part{"self_attn.k_proj", h.KV * h.Dim}, Part{"self_attn.v_proj", h.KV * h.Dim})
}

func oSlots(c Config, l int, bias bool) []Slot {
	return linearSlots(l, "o", c.Heads.OutWidth(), bias, Part{"self_attn.o_proj", c.Hidden})
}

func mlpSlots(c Config, l int, bias bool) []Slot {
	gateUp := linearSlots(l, "gate_up", c.Hidden, bias, Part{"mlp.gate_proj", c.Intermediate}, Part{"mlp.up_proj", c.Intermediate})
	return append(gateUp, linearSlots(l, "down", c.Intermediate, bias, Part{"mlp.down_proj", c.Hidden})...)
}

// preNormBlock is a layer of attention and a gated MLP, each after a norm.
func preNormBlock(c Config, l int, b biases) []Slot {
	all := []Slot{normSlot(l, "input_layernorm", c.Hidden, "input_layernorm")}
	all = append(all, qkvSlots(c, l, b.qkv)...)
	all = append(all, oSlots(c, l, b.o)...)
	all = append(all, normSlot(l, "post_attention_layernorm", c.Hidden, "post_attention_layernorm"))
	return append(all, mlpSlots(c, l, b.mlp)...)
}

// preNormForward is the forward pass of such layers with rotary positions.
func preNormForward(c Config, b Blocks) Rows {
	return residual(c, b, func(l int, h Rows) Rows { return b.Rope(At(l, "rope"), h) })
}

// residual is the forward pass of such layers; place gives the queries and keys of a layer their positions.
func residual(c Config, b Blocks, place func(l int, qkv Rows) Rows) Rows {
	x := b.Embed()
	for l := range c.Layers {
		h := b.Norm(At(l, "input_layernorm"), x)
		h = b.Linear(l, "qkv", h)
		h = place(l, h)
		h = b.Attention(l, h)
		h = b.Linear(l, "o", h)
		x = b.Add(At(l, "attention"), x, h)

		h = b.Norm(At(l, "post_attention_layernorm"), x)
		h = b.Linear(l, "gate_up", h)
		h = b.SwiGLU(At(l, "mlp"), h)
		h = b.Linear(l, "down", h)
		x = b.AddBlock(At(l, "mlp"), x, h)
	}
	return b.Norm("norm", x)
}

// initial: matrices have standard deviation 0.02, and 1/sqrt(2·layers) of that if they write to the residual
// stream; norms multiply by one, biases are zero.
func initial(c Config, s Slot) (mean, spread float64) {
	switch {
	case s.Bias():
		return 0, 0
	case s.Vector:
		return 1, 0
	case s.is("o"), s.is("down"):
		return 0, initialSpread / math.Sqrt(float64(2*c.Layers))
	}
	return 0, initialSpread
}

// The default window of a family with windows if config.json has no sliding_window, and the marker of a missing key. null means no window.
const (
	defaultWindow = 4096
	unnamed       = math.MinInt
)

// unnamedWindow is the value to unmarshal into: a key that is there replaces the marker.
func unnamedWindow() rawWindow { return rawWindow{Size: new(unnamed)} }

// rawWindow are the keys of a sliding window.
type rawWindow struct {
	Use       *bool    `json:"use_sliding_window"`
	Size      *int     `json:"sliding_window"`
	FullFirst *int     `json:"max_window_layers"`
	Types     []string `json:"layer_types"`
}

// The names in layer_types.
const (
	slidingLayer = "sliding_attention"
	fullLayer    = "full_attention"
)

// read finds the layers with a sliding window: those in layer_types or, without that key, those for which slides is true.
func (r rawWindow) read(c *Config, slides func(layer int) bool) error {
	if r.Size != nil && *r.Size == unnamed {
		if r.Size = nil; c.MaxPositions > defaultWindow {
			r.Size = new(defaultWindow)
		}
	}
	if r.Size == nil {
		for l, t := range r.Types {
			if t != fullLayer {
				return badinput.Errorf("layer_types: found %q of layer %d and no sliding_window, expected %q", t, l, fullLayer)
			}
		}
		return nil
	}
	if *r.Size < 1 {
		return badinput.Errorf("sliding_window: found %d, expected at least 1, or null", *r.Size)
	}
	if r.Types != nil && len(r.Types) != c.Layers {
		return badinput.Errorf("layer_types: found %d, expected one for each of num_hidden_layers %d", len(r.Types), c.Layers)
	}
	if c.Layers < 1 || c.Layers > maxLayers {
		return nil // an invalid number of layers is refused later
	}
	sliding, any := make([]bool, c.Layers), false
	for l := range sliding {
		if sliding[l] = slides(l); r.Types != nil {
			if t := r.Types[l]; t != slidingLayer && t != fullLayer {
				return badinput.Errorf("layer_types: found %q of layer %d, supported: %s, %s", t, l, fullLayer, slidingLayer)
			}
			sliding[l] = r.Types[l] == slidingLayer
		}
		any = any || sliding[l]
	}
	if any {
		c.Window, c.Sliding = *r.Size, sliding
	}
	return nil
}

// fromLayer reads a window that use_sliding_window must switch on, and that the first layers do not have.
func (r rawWindow) fromLayer(c *Config) error {
	if r.Use == nil || !*r.Use {
		return nil
	}
	if r.FullFirst == nil && r.Types == nil {
		return badinput.Errorf("max_window_layers: missing, use_sliding_window needs it")
	}
	return r.read(c, func(l int) bool { return r.FullFirst != nil && l >= *r.FullFirst })
}

// windowKeys are the keys of config.json for such a window.
func windowKeys(c Config) map[string]any {
	if c.Window == 0 {
		return map[string]any{"use_sliding_window": false}
	}
	return map[string]any{"use_sliding_window": true, "sliding_window": c.Window, "layer_types": layerTypes(c), "max_window_layers": 0}
}

// layerTypes is the value of layer_types.
func layerTypes(c Config) []string {
	types := make([]string, c.Layers)
	for l := range types {
		types[l] = fullLayer
		if c.Window > 0 && c.Sliding[l] {
			types[l] = slidingLayer
		}
	}
	return types
}

// checkSiLU refuses an activation other than that of SwiGLU.
func checkSiLU(found string) error {
	if found != "silu" && found != "swish" {
		return badinput.Errorf("hidden_act: found %q, expected \"silu\"", found)
	}
	return nil
}
