package arch

// mistral is the family of Mistral 7B: like Llama, but with a sliding window in all layers, or in none.
var mistral = architecture{
	name:    "MistralForCausalLM",
	read:    readMistral,
	keys:    mistralKeys,
	block:   func(c Config, l int) []Slot { return preNormBlock(c, l, biases{}) },
	forward: preNormForward,
	initial: initial,
}

// rawMistral are the keys of config.json that not every decoder has.
type rawMistral struct {
	rawWindow
	HiddenAct string `json:"hidden_act"`
}

func readMistral(text []byte) (Config, error) {
	own := rawMistral{rawWindow: unnamedWindow()}
	c, err := readDecoder(text, &own, absent{theta: 1e4})
	if err != nil {
		return Config{}, err
	}
	if err := checkSiLU(own.HiddenAct); err != nil {
		return Config{}, err
	}
	err = own.read(&c, func(int) bool { return true })
	return c, err
}

func mistralKeys(c Config) map[string]any {
	keys := map[string]any{
		"model_type": "mistral", "hidden_act": "silu", "attention_dropout": 0, "initializer_range": initialSpread, "sliding_window": nil,
	}
	if c.Window > 0 {
		keys["sliding_window"], keys["layer_types"] = c.Window, layerTypes(c)
	}
	return keys
}
