package gguf

import (
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/model"
)

// The tensors outside of layers.
const (
	embedding  = "token_embd.weight"
	head       = "output.weight"
	lastNorm   = "output_norm.weight"
	ropeFactor = "rope_freqs.weight" // divisors of the rotary embedding's frequencies
)

var outerNames = map[string]string{
	"model.embed_tokens.weight": embedding, "model.norm.weight": lastNorm, "lm_head.weight": head,
}

// family describes an architecture in the format.
type family struct {
	name     string            // general.architecture
	read     string            // the name in config.json when it is read back
	own      map[string]string // names of modules that differ from common
	pairwise bool              // the rotary embedding rotates neighbouring pairs of rows, not halves
	offset   float32           // added to the weights of norms in the file
}

// common are the names of a layer's modules.
var common = map[string]string{
	"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
	"self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
	"post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}

var (
	llama  = family{name: "llama", read: "LlamaForCausalLM", pairwise: true}
	qwen2  = family{name: "qwen2", read: "Qwen2ForCausalLM"}
	qwen3  = family{name: "qwen3", read: "Qwen3ForCausalLM"}
	gemma2 = family{name: "gemma2", read: "Gemma2ForCausalLM", offset: 1, own: map[string]string{
		"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
		"post_feedforward_layernorm": "post_ffw_norm",
	}}
)

// families are the families by the architecture in config.json.
var families = map[string]*family{
	"LlamaForCausalLM": &llama, "MistralForCausalLM": &llama, "Qwen2ForCausalLM": &qwen2, "Qwen3ForCausalLM": &qwen3,
	"Gemma2ForCausalLM": &gemma2,
}

// familyNamed finds a family by its name in a GGUF file.
func familyNamed(name string) (*family, error) {
	for _, f := range []*family{&llama, &qwen2, &qwen3, &gemma2} {
		if f.name == name {
			return f, nil
		}
	}
	return nil, badinput.Errorf("general.architecture: found %q, supported: llama, qwen2, qwen3, gemma2", name)
}

// tensorName is the name in the file for a tensor of the model.
func (f *family) tensorName(hf string) (string, error) {
	if name, ok := outerNames[hf]; ok {
		return name, nil
	}
	rest, inLayer := strings.CutPrefix(hf, "model.layers.")
	layer, rest, _ := strings.Cut(rest, ".")
	for _, kind := range []string{".weight", ".bias"} {
		module, ok := strings.CutSuffix(rest, kind)
		name := f.own[module]
		if name == "" {
			name = common[module]
		}
		if inLayer && ok && name != "" {
			return "blk." + layer + "." + name + kind, nil
		}
	}
	return "", fmt.Errorf("gguf: tensor %q has no name in a file of the architecture %s", hf, f.name)
}

// tensorChange is how a tensor's numbers differ in the file.
type tensorChange struct {
	heads, width int     // if not 0: rows are permuted within heads of that many rows, interleaving the halves
	offset       float32 // added
}

// isZero reports whether nothing changes.
func (c tensorChange) isZero() bool { return c == tensorChange{} }

// changeOf is the change of a tensor of the model.
func (f *family) changeOf(hf string, cfg model.Config) (c tensorChange) {
	of := func(module string) bool { return strings.Contains(hf, module) }
	switch {
	case f.pairwise && of("self_attn.q_proj."):
		c.heads, c.width = cfg.Heads.Q, cfg.Heads.Dim
	case f.pairwise && of("self_attn.k_proj."):
		c.heads, c.width = cfg.Heads.KV, cfg.Heads.Dim
	case strings.HasSuffix(hf, "norm.weight"):
		c.offset = f.offset
	}
	return c
}

// row is the row in the model for row r of the file.
func (c tensorChange) row(r int) int {
	if c.heads == 0 {
		return r
	}
	h, i := r/c.width, r%c.width
	return h*c.width + i%2*(c.width/2) + i/2
}
