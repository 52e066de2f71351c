// Package calls reads what models say: thoughts, content, and calls of tools in the notation that they were trained to write.
//
// It knows nothing of what the tools do, nor of protocols.
package calls

import (
	"strings"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
)

// Of tells from a chat format how a model writes thoughts and calls.
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

// Marks are the control tokens that belong to a notation, and their texts.
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

// WithinThoughts reports whether a prompt leaves a model thinking.
func WithinThoughts(prompt string) bool {
	i := strings.LastIndex(prompt, ThinkOpen)
	return i >= 0 && strings.TrimSpace(prompt[i+len(ThinkOpen):]) == ""
}
