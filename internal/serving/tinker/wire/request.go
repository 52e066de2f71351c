package wire

import (
	"encoding/json"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// The requests that are JSON. The tag of a field named _ lists further fields of the protocol, which are not read here.

// Named has the fields of every call about a model.
type Named struct {
	Model string   `json:"model_id"`
	Seq   int64    `json:"seq_id"`
	_     struct{} `also:"type"`
}

// CreateModel is the body of create_model.
type CreateModel struct {
	Session  string         `json:"session_id"`
	Seq      int64          `json:"model_seq_id"`
	Base     string         `json:"base_model"`
	LoRA     LoRA           `json:"lora_config"`
	Metadata map[string]any `json:"user_metadata"`
	_        struct{}       `also:"type"`
}

// LoRA says which parts of a model are trained.
type LoRA struct {
	Rank    int    `json:"rank"`
	Seed    *int64 `json:"seed"`
	Unembed *bool  `json:"train_unembed"`
	MLP     *bool  `json:"train_mlp"`
	Attn    *bool  `json:"train_attn"`
}

// OptimStep is the body of optim_step.
type OptimStep struct {
	Named
	Adam Adam `json:"adam_params"`
}

// Adam are the settings of a step; nil: the default.
type Adam struct {
	Rate  *float64 `json:"learning_rate"`
	Beta1 *float64 `json:"beta1"`
	Beta2 *float64 `json:"beta2"`
	Eps   *float64 `json:"eps"`
	Decay *float64 `json:"weight_decay"`
	Clip  *float64 `json:"grad_clip_norm"`
	Type  any      `json:"type"`
}

// check refuses the settings of other optimizers, some of whose names are those of Adam's.
func (q *OptimStep) check() error {
	if name, ok := q.Adam.Type.(string); ok && !strings.HasPrefix(name, "adam") {
		return badinput.Errorf("adam_params.type: found %.40q, expected adamw: it is the only optimizer here", name)
	}
	return nil
}

// Save is the body of save_weights and save_weights_for_sampler.
type Save struct {
	Named
	Path      *string  `json:"path"`
	TTL       *int64   `json:"ttl_seconds"`
	Overwrite bool     `json:"overwrite"`
	_         struct{} `also:"sampling_session_seq_id"`
}

// Load is the body of load_weights.
type Load struct {
	Named
	Path      string   `json:"path"`
	Optimizer bool     `json:"optimizer"`
	_         struct{} `also:"weights_access_token session_id model_seq_id"`
}

// Sample is the body of asample.
type Sample struct {
	Session string `json:"sampling_session_id"`
	Seq     int64  `json:"seq_id"`
	N       *int   `json:"num_samples"`
	Prompt  struct {
		Chunks []Chunk `json:"chunks"`
	} `json:"prompt"`
	Params         Sampling `json:"sampling_params"`
	PromptLogProbs bool     `json:"prompt_logprobs"`
	PromptTop      int      `json:"topk_prompt_logprobs"`
	_              struct{} `also:"type base_model model_path record_stability_info"`
}

// Chunk is a part of a prompt. Other types than text are refused.
type Chunk struct {
	Type   string   `json:"type"`
	Tokens []int32  `json:"tokens"`
	_      struct{} `also:"data format expected_tokens location height width"`
}

// Sampling are the sampling parameters; nil: the default.
type Sampling struct {
	MaxTokens   *int            `json:"max_tokens"`
	Seed        *int64          `json:"seed"`
	Stop        json.RawMessage `json:"stop"`
	Temperature json.RawMessage `json:"temperature"`
	TopK        *int            `json:"top_k"`
	TopP        *float32        `json:"top_p"`
}
