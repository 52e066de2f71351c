// Package calls splits what models write into thoughts, content and tool calls, in the notation that each was trained on.
//
// It knows nothing of what the tools do, nor of protocols.
package calls

import (
	"strings"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
)

// Of recognises the notation of a model by its chat template.
func Of(r *chat.Renderer, tok *tokenizer.Tokenizer) (n Notation) {
	template := tok.ChatTemplate() + tok.ToolTemplate()
	switch {
	case r.Name() == "template" && strings.Contains(template, Mistral.Open) && strings.Contains(template, NameEnd):
		n = MistralNamed
	case r.Name() == "template" && strings.Contains(template, Mistral.Open):
		n = Mistral
	case r.Name() != "template" || strings.Contains(template, Hermes.Open):
		n = Hermes
	case strings.Contains(template, `"parameters": `) || strings.Contains(template, pythonTag):
		n = Llama
	}
	_, hasToken := tok.TokenID(ThinkOpen)
	n.Thinks = hasToken || strings.Contains(template, ThinkOpen)
	return n
}

// Marks maps the control tokens of a notation to their texts.
func (n Notation) Marks(tok *tokenizer.Tokenizer) map[int32]string {
	marks := map[int32]string{}
	texts := []string{n.Prefix, n.Open, n.Close, ThinkOpen, ThinkClose}
	if n.List {
		texts = append(texts, NameEnd, nameID)
	}
	for _, text := range texts {
		if id, ok := tok.TokenID(text); ok && text != "" {
			marks[id] = text
		}
	}
	return marks
}

// WithinThoughts reports whether a prompt ends with the opening tag of thoughts.
func WithinThoughts(prompt string) bool {
	i := strings.LastIndex(prompt, ThinkOpen)
	return i >= 0 && strings.TrimSpace(prompt[i+len(ThinkOpen):]) == ""
}
