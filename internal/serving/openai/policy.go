package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/chat/calls"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/grammar"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Host has policies by name: package serving's, or a script in tests.
type Host interface {
	Policies() []*Policy               // sorted by name
	Find(name string) (*Policy, error) // the error says which there are
}

// Policy is what the name of a model stands for.
type Policy struct {
	Name, Base string
	Created    time.Time
	Language   *Language
	MaxLength  int // tokens of a prompt and its completion
	// Submit has requests drawn, all of them or none. What it returns has them given up.
	Submit func([]sampler.Request, []sampler.Listener) (cancel func(), err error)
}

// Language is what a policy is spoken to in. Policies over the same model may share it.
type Language struct {
	Tokenizer *tokenizer.Tokenizer
	Stops     []int32 // tokens that end a completion
	Rows      int     // of the model's vocabulary, which may be more than the tokenizer has
	// Chat gives the chat format with more variables of its template.
	Chat func(vars map[string]json.RawMessage) (*chat.Renderer, error)

	mu     sync.Mutex
	chats  map[string]*format
	shapes map[string]*grammar.Grammar

	length sync.Once
	most   int // bytes of a token

	once   sync.Once
	voc    *grammar.Vocabulary
	vocErr error
}

// format is a chat format and the notation of what is answered in it.
type format struct {
	*chat.Renderer
	notation calls.Notation
	tools    bool // it writes the tools that there are
}

const (
	mostFormats      = 64      // are kept of those that clients chose variables for
	longestVariables = 4 << 10 // bytes
)

// format gives the chat format with the variables of a request, as JSON or nil.
func (l *Language) format(raw json.RawMessage) (*format, error) {
	key := ""
	var vars map[string]json.RawMessage
	if len(raw) > longestVariables {
		return nil, badinput.Errorf("found %d bytes, expected at most %d", len(raw), longestVariables)
	}
	if raw != nil {
		if err := json.Unmarshal(raw, &vars); err != nil {
			return nil, badinput.Errorf("found %s, expected an object such as {\"enable_thinking\": false}", brief(raw))
		}
		for _, own := range []string{"messages", "tools", "documents", "add_generation_prompt"} {
			if _, ok := vars[own]; ok {
				return nil, badinput.Errorf("found %q, which the server itself gives the template", own)
			}
		}
		if len(vars) > 0 {
			sorted, err := json.Marshal(vars)
			if err != nil {
				return nil, err
			}
			key = string(sorted)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f, ok := l.chats[key]; ok {
		return f, nil
	}
	renderer, err := l.Chat(vars)
	if err != nil {
		return nil, err
	}
	if l.chats == nil || len(l.chats) == mostFormats {
		l.chats = map[string]*format{}
	}
	f := &format{Renderer: renderer, notation: calls.Of(renderer, l.Tokenizer), tools: writesTools(renderer)}
	l.chats[key] = f
	return f, nil
}

// writesTools tries whether a tool makes a difference to a prompt.
func writesTools(r *chat.Renderer) bool {
	asked := []chat.Message{{Role: "user", Content: "a"}}
	tool := chat.Tool(`{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{}}}}`)
	_, without, err1 := r.Prompt(asked)
	_, with, err2 := r.Prompt(asked, tool)
	return err1 == nil && err2 == nil && with != without
}

// explain puts an error of drawing into the words of a status.
func explain(err error) error {
	var known *refusal.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, sampler.ErrBusy):
		return refusal.Busy(time.Second, "%v", err)
	case errors.Is(err, sampler.ErrClosed):
		return &refusal.Error{Status: http.StatusServiceUnavailable, Message: "the server is stopping", After: time.Second}
	case errors.Is(err, sampler.ErrWithdrawn):
		return &refusal.Error{Status: http.StatusNotFound, Param: "model", Code: "model_not_found", Message: err.Error()}
	case badinput.Is(err):
		return refusal.Errorf(http.StatusBadRequest, "%v", err)
	}
	return fmt.Errorf("drawing: %w", err)
}
