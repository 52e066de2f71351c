package chat

import (
	"strings"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
)

// plain is its name.
const plain = "plain"

// Plain makes the renderer of models that were not trained on conversations: what is said stands there as it is, and the model goes on
// with it. A token that begins every text of the model stands before it.
func Plain(tok *tokenizer.Tokenizer) (*Renderer, error) {
	begin := ""
	if beginsTexts(tok) {
		begin = "{{- bos_token }}"
	}
	r, err := fromTemplate(tok.WithChatTemplate(begin+"{%- for message in messages %}{{- message.content }}{%- endfor %}"), Options{})
	if err == nil {
		r.name = plain
	}
	return r, err
}

// beginsTexts tells whether texts of a model begin with a token. Its own chat template says so; where there is none, so does a token
// that is there for nothing else.
func beginsTexts(tok *tokenizer.Tokenizer) bool {
	parts := tok.Parts()
	bos := parts["bos_token"]
	if template := tok.ChatTemplate(); template != "" {
		return bos != "" && (strings.Contains(template, "bos_token") || strings.Contains(template, bos))
	}
	return bos != "" && bos != parts["eos_token"]
}
