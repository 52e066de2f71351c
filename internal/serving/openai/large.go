package openai

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// largeBody is a body, in bytes, that is read by turns: what is made of a text may be fifty times as large, and take a second.
const largeBody = 64 << 10

// turns are those of large bodies: one at a time of each who asks, and two in all.
type turns struct {
	all chan struct{}

	mu   sync.Mutex
	each map[string]chan struct{} // by who asks
}

func newTurns() *turns { return &turns{all: make(chan struct{}, 2), each: map[string]chan struct{}{}} }

// take waits for one.
func (t *turns) take(ctx context.Context, who string) (leave func(), err error) {
	t.mu.Lock()
	own := t.each[who]
	if own == nil {
		own = make(chan struct{}, 1)
		t.each[who] = own
	}
	t.mu.Unlock()
	select {
	case own <- struct{}{}:
	case <-ctx.Done():
		return nil, errLeft
	}
	select {
	case t.all <- struct{}{}:
		return func() { <-t.all; <-own }, nil
	case <-ctx.Done():
		<-own
		return nil, errLeft
	}
}

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

// holds refuses texts of so many bytes that they cannot be few enough tokens, before they are made tokens of. Where characters are
// composed first, a token stands for up to three times its length.
func (p *Policy) holds(bytes int) error {
	if most := 3 * p.MaxLength * p.Language.longest(); bytes > most {
		return &refusal.Error{Status: http.StatusBadRequest, Code: "context_length_exceeded", Message: fmt.Sprintf(
			"a text of %d bytes is more than the %d tokens that %s may have here; send less", bytes, p.MaxLength, p.Name)}
	}
	return nil
}

// prompt writes a conversation, unless it is far too long.
func (p *Policy) prompt(f *format, messages []chat.Message, tools []chat.Tool) (tokens []int32, text string, err error) {
	length := 0
	for _, m := range messages {
		length += len(m.Content)
	}
	if err := p.holds(length); err != nil {
		return nil, "", err
	}
	if tokens, text, err = f.Prompt(messages, tools...); err != nil {
		return nil, "", refusal.Field("messages", "%s", refusal.Short(err.Error(), longestReason))
	}
	return tokens, text, nil
}
