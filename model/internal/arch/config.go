package arch

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/openfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
)

// Config is the shape of a model according to its config.json.
type Config struct {
	Architecture  string
	Vocab         int
	Hidden        int
	Intermediate  int
	Layers        int
	Heads         kernels.Heads
	Eps           float32
	RopeTheta     float64
	RopeScaling   Scaling // of the rotary embedding's frequencies
	MaxPositions  int
	TiedHead      bool // the output head is the embedding table
	AttentionBias bool // of queries, keys, values and the output
	MLPBias       bool // of all three matrices

	Window      int     // the sliding window in positions; 0: no layer has one
	Sliding     []bool  // which layers have the window
	QueryScalar float64 // scores are divided by its square root; 0: Heads.Dim
	ScoreCap    float32 // the cap of scores, as in kernels.Attn
	LogitCap    float32 // the cap of logits, as in kernels.Logits
	DType       string  // the type in which the weights were published, such as "bfloat16", if results depend on it; "" if unknown
}

// Attn is the attention of a layer.
func (c Config) Attn(layer int) kernels.Attn {
	a := kernels.Attn{Heads: c.Heads, Cap: c.ScoreCap}
	if c.QueryScalar != 0 {
		a.Scale = float32(1 / math.Sqrt(c.QueryScalar))
	}
	if c.Window > 0 && c.Sliding[layer] {
		a.Window = c.Window
	}
	return a
}

// Reach is the largest window of all layers, in positions up to and with a row's own; 0: some layer has none.
func (c Config) Reach() int {
	if slices.Contains(c.Sliding, false) {
		return 0
	}
	return c.Window
}

// Norm is the norm of rows.
func (c Config) Norm() kernels.Norm { return kernels.Norm{Eps: c.Eps, Offset: c.arch().offset} }

// LoRADims are the dimensions of adapters for this model.
func (c Config) LoRADims() lora.Dims {
	return lora.Dims{
		Layers: c.Layers, Hidden: c.Hidden, Intermediate: c.Intermediate,
		Q: c.Heads.Q * c.Heads.Dim, KV: c.Heads.KV * c.Heads.Dim,
	}
}

// ReadConfig reads config.json of the model in dir.
func ReadConfig(dir string) (Config, error) {
	path := filepath.Join(dir, "config.json")
	text, err := openfile.Read(path)
	if err != nil {
		return Config{}, badinput.Errorf("model %s: %w; expected a Hugging Face model directory", dir, err)
	}
	c, err := ParseConfig(text)
	if err != nil {
		return Config{}, badinput.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// ParseConfig reads the text of a config.json.
func ParseConfig(text []byte) (Config, error) {
	var r rawConfig
	if err := unmarshal(text, &r); err != nil {
		return Config{}, err
	}
	if err := checkNames(r.Architectures); err != nil {
		return Config{}, err
	}
	c, err := named(r.Architectures[0]).read(text)
	if err != nil {
		return Config{}, err
	}
	return c, c.Check()
}

func unmarshal(text []byte, v any) error {
	if err := jsonl.UnmarshalExactCase(text, v); err != nil {
		return badinput.Errorf("not a model configuration: %w", err)
	}
	return nil
}

// rawConfig are the keys of config.json that every decoder has; pointers tell what is absent.
type rawConfig struct {
	Architectures  []string        `json:"architectures"`
	Vocab          int             `json:"vocab_size"`
	Hidden         int             `json:"hidden_size"`
	Intermediate   int             `json:"intermediate_size"`
	Layers         int             `json:"num_hidden_layers"`
	QHeads         int             `json:"num_attention_heads"`
	KVHeads        *int            `json:"num_key_value_heads"`
	HeadDim        *int            `json:"head_dim"`
	Eps            float32         `json:"rms_norm_eps"`
	RopeTheta      *float64        `json:"rope_theta"`
	RopeParameters json.RawMessage `json:"rope_parameters"`
	RopeScaling    json.RawMessage `json:"rope_scaling"`
	Partial        *float64        `json:"partial_rotary_factor"`
	MaxPositions   int             `json:"max_position_embeddings"`
	Original       *int            `json:"original_max_position_embeddings"` // of the scaling, where that does not have it
	TiedHead       *bool           `json:"tie_word_embeddings"`
}

// absent are the defaults of missing keys that differ between architectures.
type absent struct {
	tied     bool
	theta    float64 // 0: the key must be there
	allHeads bool    // as many key heads as query heads; otherwise the key is required
}

// readDecoder reads the keys that every decoder has, and into own those of one architecture.
func readDecoder(text []byte, own any, a absent) (Config, error) {
	var r rawConfig
	if err := unmarshal(text, &r); err != nil {
		return Config{}, err
	}
	if err := unmarshal(text, own); err != nil {
		return Config{}, err
	}
	c := Config{
		Architecture: r.Architectures[0],
		Vocab:        r.Vocab, Hidden: r.Hidden, Intermediate: r.Intermediate, Layers: r.Layers,
		Heads: kernels.Heads{Q: r.QHeads},
		Eps:   r.Eps, MaxPositions: r.MaxPositions, TiedHead: a.tied,
	}
	if r.TiedHead != nil {
		c.TiedHead = *r.TiedHead
	}
	if r.KVHeads != nil {
		c.Heads.KV = *r.KVHeads
	} else if a.allHeads {
		c.Heads.KV = r.QHeads
	}
	if r.HeadDim != nil {
		c.Heads.Dim = *r.HeadDim
	} else if r.QHeads > 0 {
		if c.Heads.Dim = r.Hidden / r.QHeads; r.Hidden%r.QHeads != 0 {
			return Config{}, badinput.Errorf("num_attention_heads: found %d, which does not divide hidden_size %d; expected a divisor, or head_dim",
				r.QHeads, r.Hidden)
		}
	}
	err := r.readRope(&c, a.theta)
	return c, err
}

func isNull(m json.RawMessage) bool { return len(m) == 0 || string(m) == "null" }

// The largest plausible sizes; larger ones are taken for a damaged file.
const (
	maxWidth  = 1 << 20
	maxVocab  = 1 << 24
	maxLayers = 1 << 12
)

// Check names the first key with an impossible value.
func (c Config) Check() error {
	if err := checkNames([]string{c.Architecture}); err != nil {
		return err
	}
	for _, f := range []struct {
		key   string
		value int
		max   int
	}{
		{"vocab_size", c.Vocab, maxVocab}, {"hidden_size", c.Hidden, maxWidth}, {"intermediate_size", c.Intermediate, maxWidth},
		{"num_hidden_layers", c.Layers, maxLayers}, {"num_attention_heads", c.Heads.Q, maxLayers},
		{"num_key_value_heads", c.Heads.KV, maxLayers}, {"head_dim", c.Heads.Dim, maxLayers},
		{"max_position_embeddings", c.MaxPositions, 1 << 30},
	} {
		if f.value < 1 || f.value > f.max {
			return badinput.Errorf("%s: found %d, expected 1 to %d", f.key, f.value, f.max)
		}
	}
	switch {
	case c.Heads.Q%c.Heads.KV != 0:
		return badinput.Errorf("num_attention_heads: found %d, expected a multiple of num_key_value_heads %d", c.Heads.Q, c.Heads.KV)
	case c.Heads.Dim%2 != 0:
		return badinput.Errorf("head_dim: found %d, expected an even number", c.Heads.Dim)
	case !(c.Eps > 0 && c.Eps < 1):
		return badinput.Errorf("rms_norm_eps: found %g, expected a small positive number", c.Eps)
	case !(c.RopeTheta > 1):
		return badinput.Errorf("rope_theta: found %g, expected more than 1", c.RopeTheta)
	case !(c.QueryScalar >= 0) || c.QueryScalar > maxWidth:
		return badinput.Errorf("query_pre_attn_scalar: found %g, expected more than 0, and %d at the most", c.QueryScalar, maxWidth)
	case c.Window < 0:
		return badinput.Errorf("sliding_window: found %d, expected at least 1, or null", c.Window)
	case c.Window > 0 && len(c.Sliding) != c.Layers:
		return badinput.Errorf("layer_types: found %d, expected one for each of num_hidden_layers %d", len(c.Sliding), c.Layers)
	}
	return c.RopeScaling.check()
}

// CheckSequence reports why a sequence cannot be scored: it is empty, too long, or holds a token that
// the model does not have.
func (c Config) CheckSequence(tokens []int32) error {
	if len(tokens) < 2 {
		return badinput.Errorf("sequence of %d tokens, expected at least 2: the first is not predicted", len(tokens))
	}
	return c.CheckTokens(tokens)
}

// CheckTokens reports the first token that the model does not have, and a sequence that is too long.
func (c Config) CheckTokens(tokens []int32) error {
	if len(tokens) > c.MaxPositions {
		return badinput.Errorf("sequence of %d tokens, expected at most %d positions", len(tokens), c.MaxPositions)
	}
	for i, t := range tokens {
		if t < 0 || int(t) >= c.Vocab {
			return badinput.Errorf("token %d at position %d, expected 0 to %d", t, i, c.Vocab-1)
		}
	}
	return nil
}
