// Package consistent checks that a model's config.json agrees with its tensors.
package consistent

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/nf4"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/arch"
)

// Check compares config.json with the tensors of the files before they are read: sizes, naming the key, the number of
// layers, whether the head is tied, and tensors that the architecture would not read.
func Check(c arch.Config, set *tensorfile.Set) error {
	for _, check := range []func(arch.Config, *tensorfile.Set) error{checkSizes, checkLayers, checkHead, checkUnread} {
		if err := check(c, set); err != nil {
			return err
		}
	}
	return nil
}

// checkSizes compares each size with one tensor that has it; other tensors are checked when they are read.
func checkSizes(c arch.Config, set *tensorfile.Set) error {
	h, block := c.Heads, func(module string) string { return "model.layers.0." + module + ".weight" }
	for _, s := range []struct {
		key    string
		size   int
		tensor string
		side   int
	}{
		{"vocab_size", c.Vocab, "model.embed_tokens.weight", 0},
		{"hidden_size", c.Hidden, "model.embed_tokens.weight", 1},
		{"num_attention_heads · head_dim", h.Q * h.Dim, block("self_attn.q_proj"), 0},
		{"num_key_value_heads · head_dim", h.KV * h.Dim, block("self_attn.k_proj"), 0},
		{"intermediate_size", c.Intermediate, block("mlp.gate_proj"), 0},
	} {
		t, err := set.Tensor(s.tensor)
		if err != nil || len(t.Shape) != 2 {
			continue // this is an error when it is read
		}
		if t.Shape[s.side] != s.size {
			return badinput.Errorf("%s: config.json says %s is %d, but tensor %q has shape %v, which makes it %d",
				t.File, s.key, s.size, s.tensor, t.Shape, t.Shape[s.side])
		}
	}
	return nil
}

// checkLayers compares the number of layers.
func checkLayers(c arch.Config, set *tensorfile.Set) error {
	last := -1
	for _, name := range set.Names() {
		var l int
		if n, _ := fmt.Sscanf(name, "model.layers.%d.", &l); n == 1 {
			last = max(last, l)
		}
	}
	if last >= 0 && last+1 != c.Layers {
		return badinput.Errorf("config.json says num_hidden_layers is %d, but the files have tensors of %d layers", c.Layers, last+1)
	}
	return nil
}

// checkHead requires a head if config.json says that it is not tied, and otherwise none that differs from the embedding.
func checkHead(c arch.Config, set *tensorfile.Set) error {
	const head, table = "lm_head.weight", "model.embed_tokens.weight"
	if !c.TiedHead {
		if !set.Has(head) {
			return badinput.Errorf("tie_word_embeddings is false in config.json, or not there, but the files have no tensor %q; "+
				"write \"tie_word_embeddings\": true there if the head is the embedding", head)
		}
		return nil
	}
	if !set.Has(head) || !set.Has(table) {
		return nil
	}
	h, err := set.Tensor(head)
	if err != nil {
		return err
	}
	e, err := set.Tensor(table)
	if err == nil && (h.Encoding != e.Encoding || !bytes.Equal(h.Bytes, e.Bytes)) {
		return badinput.Errorf("%s: config.json says tie_word_embeddings is true, but tensor %q is not %q", h.File, head, table)
	}
	return nil
}

// checkUnread refuses biases and norms that the architecture does not have: ignoring them would compute another model.
func checkUnread(c arch.Config, set *tensorfile.Set) error {
	known := c.Tensors()
	for _, name := range set.Names() {
		small := strings.HasSuffix(name, ".bias") || strings.HasSuffix(name, "norm.weight")
		if small && !known[name] && strings.HasPrefix(name, "model.layers.") {
			return badinput.Errorf("tensor %q is in the files, but a %s with this config.json has none", name, c.Architecture)
		}
	}
	return nil
}

// Published is the configuration with the type of the weights, if config.json does not say it.
func Published(c arch.Config, set *tensorfile.Set) arch.Config {
	if t, err := set.Tensor(c.Slots()[0].Parts[0].Tensor); err == nil {
		return c.Published(t.Encoding)
	}
	return c
}

// OnlyBF16 tells whether all matrices that the model reads are bf16, including those of four bits after decoding. Other tensors of the
// files do not matter.
func OnlyBF16(c arch.Config, set *tensorfile.Set) bool {
	for _, s := range c.Slots() {
		for _, p := range s.Parts {
			if _, _, err := set.Bytes(p.Tensor); s.Vector || err == nil {
				continue // not a matrix, or codes of four bits
			}
			if t, err := set.Tensor(p.Tensor); err != nil || t.Encoding != kernels.EncodedBF16 {
				return false
			}
		}
	}
	return nf4.OnlyBF16(set)
}
