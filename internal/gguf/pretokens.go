package gguf

import (
	"encoding/json"
	"fmt"
	"strings"
)

// tokenizerStep is a normalizer or pre-tokenizer of tokenizer.json, with the keys of all kinds.
type tokenizerStep struct {
	Type        string
	Normalizers []tokenizerStep
	Pre         []tokenizerStep `json:"pretokenizers"`
	Processors  []tokenizerStep
	Pattern     struct{ Regex, String string }
	Single      []map[string]json.RawMessage
	Individual  bool  `json:"individual_digits"`
	UseRegex    *bool `json:"use_regex"` // missing means true
	Prepend     string
	Scheme      string `json:"prepend_scheme"`
	AddPrefix   *bool  `json:"add_prefix_space"`
}

// inner are the steps of a sequence, or the step itself.
func (s *tokenizerStep) inner() []tokenizerStep {
	if s == nil {
		return nil
	}
	if s.Type != "Sequence" {
		return []tokenizerStep{*s}
	}
	var all []tokenizerStep
	for _, list := range [][]tokenizerStep{s.Normalizers, s.Pre, s.Processors} {
		for i := range list {
			all = append(all, list[i].inner()...)
		}
	}
	return all
}

// begins reports whether a text gets a begin token.
func (s *tokenizerStep) begins() bool {
	for _, p := range s.inner() {
		if p.Type != "TemplateProcessing" || len(p.Single) == 0 {
			continue
		}
		if _, special := p.Single[0]["SpecialToken"]; special {
			return true
		}
	}
	return false
}

// prefixed reports whether a text gets a leading space.
func (w *tokenizerFile) prefixed() bool {
	for _, s := range append(w.Normalizer.inner(), w.Pre.inner()...) {
		switch {
		case s.Type == "Prepend" && s.Prepend != "":
			return true
		case s.Type == "Metaspace" && s.Scheme != "":
			return s.Scheme != "never"
		case s.Type == "Metaspace":
			return s.AddPrefix == nil || *s.AddPrefix
		}
	}
	return false
}

// The patterns of pre-tokenizers, as in tokenizer.json.
const (
	contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|`
	spaces       = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwenWords    = contractions + `\p{N}` + spaces
	llamaWords   = contractions + `\p{N}{1,3}` + spaces
)

// preTokenizers are the names of pre-tokenizers in the format.
var preTokenizers = map[string]string{
	qwenWords:        "qwen2",
	llamaWords:       "llama-bpe",
	"gpt2":           "gpt-2",
	"digits\x00gpt2": "smollm",
	strings.Join([]string{`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, `[一-龥ࠀ-一가-퟿]+`, "digits"}, "\x00"): "deepseek-coder",
}

// wholeWords are those whose readers take a word of the vocabulary as one token without merging, and the name for models that merge.
var wholeWords = map[string]string{"llama-bpe": "dbrx"}

// preTokenizer is the name of the model's pre-tokenizer; "" if it has none.
func (w *tokenizerFile) preTokenizer() (string, error) {
	if w.Model.ByteFallback {
		return "", nil
	}
	var cuts []string
	for _, s := range w.Pre.inner() {
		switch {
		case s.Type == "Split" && s.Pattern.Regex != "":
			cuts = append(cuts, s.Pattern.Regex)
		case s.Type == "Digits" && s.Individual:
			cuts = append(cuts, "digits")
		case s.Type == "ByteLevel" && (s.UseRegex == nil || *s.UseRegex):
			cuts = append(cuts, "gpt2")
		case s.Type != "ByteLevel":
			cuts = append(cuts, s.Type)
		}
	}
	name, ok := preTokenizers[strings.Join(cuts, "\x00")]
	if !ok {
		return "", fmt.Errorf("pre_tokenizer: readers of GGUF have no name for one that cuts by %q; type --format safetensors", cuts)
	}
	without, whole := wholeWords[name]
	switch {
	case whole && !w.Model.IgnoreMerges:
		return without, nil
	case !whole && w.Model.IgnoreMerges:
		return "", fmt.Errorf("ignore_merges: readers of GGUF do not do that with the pre_tokenizer of %s; type --format safetensors", name)
	}
	return name, nil
}
