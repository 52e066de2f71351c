package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math"
	"path/filepath"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/splitmix"
	"github.com/seed-7879b91d/grpo/kernels"
)

// initialSpread is the standard deviation of the matrices of a new model.
const initialSpread = 0.02

// New makes a model of that configuration to be trained as a whole from the start: matrices normal with
// standard deviation 0.02, the two of each layer that write to the residual stream 1/sqrt(2·layers) of
// that, norms one, biases zero. A tensor's values depend on the seed, its name and its shape alone.
func New(b kernels.Backend, cfg Config, seed uint64, o Options) (*Policy, error) {
	if err := cfg.check(rawConfig{HiddenAct: "silu"}); err != nil {
		return nil, err
	}
	w, err := newWeights(b, cfg, true)
	if err != nil {
		return nil, err
	}
	for _, name := range w.order {
		s := w.slots[name]
		if w.operands[name], err = w.floatOperand(b, s); err != nil {
			return nil, err
		}
		b.Upload(w.master(name), s.initial(cfg.Layers, seed))
		if err := b.Sync(); err != nil {
			return nil, err
		}
	}
	w.Publish(b)
	return newPolicy(b, cfg, w, o), b.Sync()
}

// initial are the first values of a slot.
func (s slot) initial(layers int, seed uint64) []float32 {
	values := make([]float32, 0, s.size())
	for _, p := range s.parts {
		spread := initialSpread
		if strings.HasSuffix(p.tensor, "o_proj.weight") || strings.HasSuffix(p.tensor, "down_proj.weight") {
			spread /= math.Sqrt(float64(2 * layers))
		}
		key := tensorKey(seed, p.tensor)
		for i := range p.rows * s.cols {
			switch {
			case !s.vector:
				values = append(values, float32(spread*normal(key, uint64(i))))
			case s.cols == 1: // a bias
				values = append(values, 0)
			default:
				values = append(values, 1)
			}
		}
	}
	return values
}

// tensorKey starts the sequence of draws that belongs to one tensor.
func tensorKey(seed uint64, name string) uint64 {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte("init\x00"+name+"\x00"), seed))
	return binary.LittleEndian.Uint64(sum[:])
}

// normal is draw i of a sequence: eight 16-bit numbers added up, centred and scaled to a standard
// deviation of one. That is near enough to normal and, unlike a logarithm, the same on every machine.
func normal(key, i uint64) float64 {
	sum := 0
	for half := range uint64(2) {
		z := splitmix.At(key, 2*i+half)
		sum += int(z&0xFFFF) + int(z>>16&0xFFFF) + int(z>>32&0xFFFF) + int(z>>48)
	}
	const mean, spread = 8 * 65535 / 2, 53509.91 // spread: 65536·sqrt(8/12)
	return float64(sum-mean) / spread
}

// write puts the configuration into dir as config.json, for weights of that type.
func (c Config) write(dir, dtype string) error {
	text, err := json.MarshalIndent(map[string]any{
		"architectures": []string{c.Architecture}, "model_type": "qwen3", "hidden_act": "silu",
		"vocab_size": c.Vocab, "hidden_size": c.Hidden, "intermediate_size": c.Intermediate, "num_hidden_layers": c.Layers,
		"num_attention_heads": c.Heads.Q, "num_key_value_heads": c.Heads.KV, "head_dim": c.Heads.Dim,
		"rms_norm_eps": c.Eps, "rope_theta": c.RopeTheta, "rope_scaling": nil, "max_position_embeddings": c.MaxPositions,
		"tie_word_embeddings": c.TiedHead, "attention_bias": c.AttentionBias, "attention_dropout": 0,
		"use_sliding_window": false, "initializer_range": initialSpread, "use_cache": true, "torch_dtype": dtype,
	}, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, "config.json"), append(text, '\n'))
}
