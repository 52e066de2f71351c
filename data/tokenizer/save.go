package tokenizer

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strconv"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
)

// Trained is the result of Train.
type Trained struct {
	file    *file
	options TrainOptions
}

// savedConfig is the tokenizer_config.json that Hugging Face's libraries need beside tokenizer.json.
type savedConfig struct {
	AddBOSToken        bool                  `json:"add_bos_token"`
	AddPrefixSpace     bool                  `json:"add_prefix_space"`
	AddedTokens        map[string]savedToken `json:"added_tokens_decoder"`
	AdditionalSpecial  []string              `json:"additional_special_tokens"`
	BOS                *string               `json:"bos_token"`
	ChatTemplate       string                `json:"chat_template,omitempty"`
	CleanUpSpaces      bool                  `json:"clean_up_tokenization_spaces"`
	EOS                *string               `json:"eos_token"`
	Errors             string                `json:"errors"`
	ModelMaxLength     int                   `json:"model_max_length"`
	Pad                *string               `json:"pad_token"`
	SplitSpecialTokens bool                  `json:"split_special_tokens"`
	TokenizerClass     string                `json:"tokenizer_class"`
	UnknownToken       *string               `json:"unk_token"`
}

type savedToken struct {
	Content    string `json:"content"`
	LStrip     bool   `json:"lstrip"`
	Normalized bool   `json:"normalized"`
	RStrip     bool   `json:"rstrip"`
	SingleWord bool   `json:"single_word"`
	Special    bool   `json:"special"`
}

// Save writes tokenizer.json and tokenizer_config.json into a folder, which it creates if needed.
func (t *Trained) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, v := range map[string]any{"tokenizer.json": t.file, "tokenizer_config.json": t.config()} {
		data, err := marshal(v)
		if err != nil {
			return err
		}
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, data, "", "  "); err != nil {
			return err
		}
		pretty.WriteByte('\n')
		if err := atomicfile.WriteBytes(filepath.Join(dir, name), pretty.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// Tokenizer returns the trained tokenizer, which equals the one that Load reads after Save.
func (t *Trained) Tokenizer() (*Tokenizer, error) {
	tok, err := t.file.build()
	if err != nil {
		return nil, err
	}
	tok.chatTemplate = t.options.ChatTemplate
	tok.roles = map[string]string{"eos_token": t.options.EOS, "pad_token": t.options.Pad}
	maps.DeleteFunc(tok.roles, func(_, token string) bool { return token == "" })
	if t.options.EOS != "" {
		tok.eos = []int32{tok.added[t.options.EOS]}
	}
	return tok, nil
}

func (t *Trained) config() savedConfig {
	c := savedConfig{
		AddedTokens:       map[string]savedToken{},
		AdditionalSpecial: []string{},
		ChatTemplate:      t.options.ChatTemplate,
		EOS:               optional(t.options.EOS),
		Errors:            "replace",
		ModelMaxLength:    131072,
		Pad:               optional(t.options.Pad),
		TokenizerClass:    "Qwen2Tokenizer",
	}
	for _, a := range t.file.AddedTokens {
		c.AddedTokens[strconv.FormatInt(a.Id, 10)] = savedToken{Content: a.Content, Special: a.Special}
		if a.Special {
			c.AdditionalSpecial = append(c.AdditionalSpecial, a.Content)
		}
	}
	return c
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
