package arch

import (
	"cmp"
	"encoding/json"
	"math"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
)

// gemma2 is the family of Gemma 2: norms before and after attention and the MLP, whose weights are stored as differences from
// one; a window in every other layer; caps of scores and logits; and a scaled embedding, though not in the head that is tied
// to it.
var gemma2 = architecture{
	name:    "Gemma2ForCausalLM",
	read:    readGemma2,
	keys:    gemma2Keys,
	block:   gemma2Block,
	forward: gemma2Forward,
	initial: initial,
	offset:  1,
	inDType: true,
}

// tanhGELU is the activation, by its name in config.json.
const tanhGELU = "gelu_pytorch_tanh"

// rawGemma2 are the keys of config.json that not every decoder has. hidden_act is an unused leftover.
type rawGemma2 struct {
	rawWindow
	DType         string    `json:"dtype"`
	TorchDType    string    `json:"torch_dtype"`
	Activation    *string   `json:"hidden_activation"`
	AttentionBias bool      `json:"attention_bias"`
	BothWays      bool      `json:"use_bidirectional_attention"`
	Scalar        *float64  `json:"query_pre_attn_scalar"`
	ScoreCap      *nullable `json:"attn_logit_softcapping"`
	LogitCap      *nullable `json:"final_logit_softcapping"`
}

func readGemma2(text []byte) (Config, error) {
	own := rawGemma2{rawWindow: unnamedWindow(), ScoreCap: unsaid(), LogitCap: unsaid()}
	c, err := readDecoder(text, &own, absent{tied: true, theta: 1e4})
	if err != nil {
		return Config{}, err
	}
	c.AttentionBias, c.DType = own.AttentionBias, cmp.Or(own.DType, own.TorchDType)
	switch {
	case own.BothWays:
		return Config{}, badinput.Errorf("use_bidirectional_attention: found true, expected false")
	case own.Activation != nil && *own.Activation != tanhGELU:
		return Config{}, badinput.Errorf("hidden_activation: found %q, expected %q", *own.Activation, tanhGELU)
	case own.Scalar == nil:
		return Config{}, badinput.Errorf("query_pre_attn_scalar: missing")
	case !(*own.Scalar > 0):
		return Config{}, badinput.Errorf("query_pre_attn_scalar: found %g, expected more than 0", *own.Scalar)
	}
	c.QueryScalar = *own.Scalar
	if c.ScoreCap, err = own.ScoreCap.cap("attn_logit_softcapping"); err != nil {
		return Config{}, err
	}
	if c.LogitCap, err = own.LogitCap.cap("final_logit_softcapping"); err != nil {
		return Config{}, err
	}
	if _, known := dtypes[c.DType]; c.DType != "" && !known {
		return Config{}, badinput.Errorf("torch_dtype: found %q, expected bfloat16, float16 or float32: the embedding's scale is rounded to it",
			c.DType)
	}
	err = own.read(&c, func(l int) bool { return l%2 == 0 })
	return c, err
}

// nullable is a number that may be null, which is different from a missing key.
type nullable struct {
	said  bool
	value float64
}

func unsaid() *nullable { return &nullable{} }

// UnmarshalJSON is not called for null.
func (n *nullable) UnmarshalJSON(text []byte) error {
	n.said = true
	return json.Unmarshal(text, &n.value)
}

// cap is the cap; 0: none.
func (n *nullable) cap(key string) (float32, error) {
	switch {
	case n == nil:
		return 0, nil // null
	case !n.said:
		return 0, badinput.Errorf("%s: missing; expected a number, or null for none", key)
	case !(n.value > 0 && n.value < math.MaxFloat32):
		return 0, badinput.Errorf("%s: found %g, expected more than 0, or null for none", key, n.value)
	}
	return float32(n.value), nil
}

func gemma2Keys(c Config) map[string]any {
	none := func(cap float32) any {
		if cap == 0 {
			return nil
		}
		return cap
	}
	keys := map[string]any{
		"model_type": "gemma2", "hidden_act": tanhGELU, "hidden_activation": tanhGELU, "attention_bias": c.AttentionBias,
		"attention_dropout": 0, "initializer_range": initialSpread, "query_pre_attn_scalar": cmp.Or(c.QueryScalar, float64(c.Heads.Dim)),
		"attn_logit_softcapping": none(c.ScoreCap), "final_logit_softcapping": none(c.LogitCap), "sliding_window": nil,
	}
	if c.Window > 0 {
		keys["sliding_window"], keys["layer_types"] = c.Window, layerTypes(c)
	}
	return keys
}

func gemma2Block(c Config, l int) []Slot {
	norm := func(name string) Slot { return normSlot(l, name, c.Hidden, name) }
	all := []Slot{norm("input_layernorm")}
	all = append(all, qkvSlots(c, l, c.AttentionBias)...)
	all = append(all, oSlots(c, l, c.AttentionBias)...)
	all = append(all, norm("post_attention_layernorm"), norm("pre_feedforward_layernorm"))
	all = append(all, mlpSlots(c, l, false)...)
	return append(all, norm("post_feedforward_layernorm"))
}

func gemma2Forward(c Config, b Blocks) Rows {
	x := b.Scale("embedding", b.Embed(), c.embeddingScale())
	for l := range c.Layers {
		h := b.Norm(At(l, "input_layernorm"), x)
		h = b.Linear(l, "qkv", h)
		h = b.Rope(At(l, "rope"), h)
		h = b.Attention(l, h)
		h = b.Linear(l, "o", h)
		h = b.Norm(At(l, "post_attention_layernorm"), h)
		x = b.Add(At(l, "attention"), x, h)

		h = b.Norm(At(l, "pre_feedforward_layernorm"), x)
		h = b.Linear(l, "gate_up", h)
		h = b.GeGLU(At(l, "mlp"), h)
		h = b.Linear(l, "down", h)
		h = b.Norm(At(l, "post_feedforward_layernorm"), h)
		x = b.AddBlock(At(l, "mlp"), x, h)
	}
	return b.Norm("norm", x)
}

// dtypes are the types in which weights are published.
var dtypes = map[string]kernels.Encoding{
	"bfloat16": kernels.EncodedBF16, "float16": kernels.EncodedF16, "float32": kernels.EncodedF32,
}

// Published is the configuration of a model with weights of that encoding, if config.json does not say the type.
func (c Config) Published(in kernels.Encoding) Config {
	for name, e := range dtypes {
		if e == in && c.DType == "" && c.arch().inDType {
			c.DType = name
		}
	}
	return c
}

// embeddingScale is the square root of the hidden size, rounded to the type in which the weights were published.
func (c Config) embeddingScale() float32 {
	t := tensorfile.Tensor{Encoding: dtypes[cmp.Or(c.DType, "bfloat16")]}
	t.Bytes = make([]byte, t.Encoding.Size())
	tensorfile.Narrow(t.Bytes, t.Encoding, []float64{math.Sqrt(float64(c.Hidden))})
	return tensorfile.Float32s(t)[0]
}
