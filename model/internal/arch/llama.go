package arch

// llama is the family of Llama 2 and 3, and of models with the same architecture name, such as TinyLlama, SmolLM2 and
// DeepSeek-Coder: grouped-query attention and a gated MLP, each after a norm.
var llama = architecture{
	name: "LlamaForCausalLM",
	read: readLlama,
	keys: llamaKeys,
	block: func(c Config, l int) []Slot {
		return preNormBlock(c, l, biases{qkv: c.AttentionBias, o: c.AttentionBias, mlp: c.MLPBias})
	},
	forward: preNormForward,
	initial: initial,
}

// rawLlama are the keys of config.json that not every decoder has.
type rawLlama struct {
	HiddenAct     string `json:"hidden_act"`
	AttentionBias bool   `json:"attention_bias"`
	MLPBias       bool   `json:"mlp_bias"`
}

func readLlama(text []byte) (Config, error) {
	var own rawLlama
	c, err := readDecoder(text, &own, absent{theta: 1e4, allHeads: true})
	if err != nil {
		return Config{}, err
	}
	c.AttentionBias, c.MLPBias = own.AttentionBias, own.MLPBias
	return c, checkSiLU(own.HiddenAct)
}

func llamaKeys(c Config) map[string]any {
	return map[string]any{
		"model_type": "llama", "hidden_act": "silu", "attention_bias": c.AttentionBias, "mlp_bias": c.MLPBias,
		"attention_dropout": 0, "initializer_range": initialSpread, "pretraining_tp": 1,
	}
}
