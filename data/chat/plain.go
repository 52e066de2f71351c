package chat

import (
	"strings"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/precondition"
)

// plain is the name of the renderer that Plain makes.
const plain = "plain"

// Plain makes the renderer for base models: it concatenates the contents of the messages, and the model continues the text. If the
// model begins every text with a BOS token, the renderer does, too.
func Plain(tok *tokenizer.Tokenizer) (*Renderer, error) {
	precondition.NotNil("chat.Plain", "tok", tok)
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

// beginsTexts reports whether texts of a model begin with its BOS token. If the model has a chat template, that decides; otherwise a
// BOS token that is not the EOS token as well.
func beginsTexts(tok *tokenizer.Tokenizer) bool {
	parts := tok.Parts()
	bos := parts["bos_token"]
	if template := tok.ChatTemplate(); template != "" {
		return bos != "" && (strings.Contains(template, "bos_token") || strings.Contains(template, bos))
	}
	return bos != "" && bos != parts["eos_token"]
}
