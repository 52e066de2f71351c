package arch

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/splitmix"
)

// initialSpread is the usual standard deviation of the matrices of a new model.
const initialSpread = 0.02

// Initial are the initial values of a slot. A tensor's values depend only on the seed, its name and its shape.
func (c Config) Initial(s Slot, seed uint64) []float32 {
	mean, spread := c.arch().initial(c, s)
	if s.Vector && !s.Bias() {
		mean -= float64(c.arch().offset)
	}
	values := make([]float32, 0, s.Size())
	for _, p := range s.Parts {
		key := tensorKey(seed, p.Tensor)
		for i := range p.Rows * s.Cols {
			values = append(values, float32(mean+spread*normal(key, uint64(i))))
		}
	}
	return values
}

// tensorKey is the seed of the sequence of draws of one tensor.
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

// Type is the torch_dtype of config.json for weights of that type: it is c.DType if that is set, because the model then depends on it.
func (c Config) Type(dtype string) string { return cmp.Or(c.DType, dtype) }

// Write writes the configuration to config.json in dir, with the torch_dtype of Type.
func (c Config) Write(dir, dtype string) error {
	keys := map[string]any{
		"architectures": []string{c.Architecture}, "torch_dtype": c.Type(dtype), "use_cache": true,
		"vocab_size": c.Vocab, "hidden_size": c.Hidden, "intermediate_size": c.Intermediate, "num_hidden_layers": c.Layers,
		"num_attention_heads": c.Heads.Q, "num_key_value_heads": c.Heads.KV, "head_dim": c.Heads.Dim,
		"rms_norm_eps": c.Eps, "rope_theta": c.RopeTheta, "rope_scaling": c.RopeScaling.write(), "max_position_embeddings": c.MaxPositions,
		"tie_word_embeddings": c.TiedHead,
	}
	maps.Copy(keys, c.arch().keys(c))
	text, err := json.MarshalIndent(keys, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, "config.json"), append(text, '\n'))
}
