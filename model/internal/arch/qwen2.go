package arch

import "maps"

// qwen2 is the family of Qwen2 and Qwen2.5: like Llama, but with biases of queries, keys and values, which config.json
// does not mention, and a window that is usually switched off.
var qwen2 = architecture{
	name:    "Qwen2ForCausalLM",
	read:    readQwen2,
	keys:    qwen2Keys,
	block:   func(c Config, l int) []Slot { return preNormBlock(c, l, biases{qkv: true}) },
	forward: preNormForward,
	initial: initial,
}

// rawQwen2 are the keys of config.json that not every decoder has.
type rawQwen2 struct {
	rawWindow
	HiddenAct string `json:"hidden_act"`
}

func readQwen2(text []byte) (Config, error) {
	own := rawQwen2{rawWindow: unnamedWindow()}
	c, err := readDecoder(text, &own, absent{theta: 1e4})
	if err != nil {
		return Config{}, err
	}
	if err := checkSiLU(own.HiddenAct); err != nil {
		return Config{}, err
	}
	err = own.fromLayer(&c)
	return c, err
}

func qwen2Keys(c Config) map[string]any {
	keys := map[string]any{"model_type": "qwen2", "hidden_act": "silu", "attention_dropout": 0, "initializer_range": initialSpread}
	maps.Copy(keys, windowKeys(c))
	return keys
}
