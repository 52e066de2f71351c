package openai

import (
	"fmt"
	"net/http"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// longest is the length of the longest token in bytes.
func (l *Language) longest() int {
	l.length.Do(func() {
		for id := range l.Rows {
			if text, ok := l.Tokenizer.Token(int32(id)); ok {
				l.most = max(l.most, len(text))
			}
		}
	})
	return l.most
}

// checkLength refuses a text that is too long for the context whatever its tokens, before it is tokenized. If the tokenizer composes
// characters, a token can stand for up to three times its bytes.
func (p *Policy) checkLength(bytes int) error {
	if most := 3 * p.MaxLength * p.Language.longest(); bytes > most {
		return &refusal.Error{Status: http.StatusBadRequest, Code: "context_length_exceeded", Message: fmt.Sprintf(
			"a text of %d bytes exceeds the maximum context length of %d tokens of %s; shorten it", bytes, p.MaxLength, p.Name)}
	}
	return nil
}

// prompt renders a conversation, unless it is far too long.
func (p *Policy) prompt(f *format, messages []chat.Message, tools []chat.Tool) (tokens []int32, text string, err error) {
	length := 0
	for _, m := range messages {
		length += len(m.Content)
	}
	if err := p.checkLength(length); err != nil {
		return nil, "", err
	}
	if tokens, text, err = f.Prompt(messages, tools...); err != nil {
		return nil, "", refusal.Field("messages", "%s", refusal.Truncate(err.Error(), longestReason))
	}
	return tokens, text, nil
}
