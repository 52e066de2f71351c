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

// Host has policies by name: that of package serving, or a fake in tests.
type Host interface {
	Policies() []*Policy               // sorted by name
	Find(name string) (*Policy, error) // the error lists the names
}

// Policy is what a model name stands for.
type Policy struct {
	Name, Base string
	Created    time.Time
	Language   *Language
	MaxLength  int // tokens of a prompt with its completion
	// Submit starts the sampling of requests, of all or none. cancel stops it.
	Submit func([]sampler.Request, []sampler.Listener) (cancel func(), err error)
}

// Language is tokenizer and chat format of a policy. Policies over the same model may share it.
type Language struct {
	Tokenizer *tokenizer.Tokenizer
	Stops     []int32 // stop tokens
	Rows      int     // of the model's embedding, which may be more than the tokenizer has tokens
	// Chat returns the chat format with additional variables for its template.
	Chat func(vars map[string]json.RawMessage) (*chat.Renderer, error)

	mu     sync.Mutex
	chats  map[string]*format
	shapes map[string]*grammar.Grammar

	length sync.Once
	most   int // bytes of the longest token

	once   sync.Once
	voc    *grammar.Vocabulary
	vocErr error
}

// format is a chat format, with its notation of calls and thoughts.
type format struct {
	*chat.Renderer
	notation calls.Notation
	tools    bool // the template renders tools
}

const (
	mostFormats      = 64      // with variables of clients, in the cache
	longestVariables = 4 << 10 // bytes
)

// format returns the chat format with the variables of a request, as JSON or nil.
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
				return nil, badinput.Errorf("found %q, which the server sets itself", own)
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

// writesTools tries whether a tool changes the prompt.
func writesTools(r *chat.Renderer) bool {
	asked := []chat.Message{{Role: "user", Content: "a"}}
	tool := chat.Tool(`{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{}}}}`)
	_, without, err1 := r.Prompt(asked)
	_, with, err2 := r.Prompt(asked, tool)
	return err1 == nil && err2 == nil && with != without
}

// explain gives an error of the sampler a status.
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
