// Package chat renders conversations as the tokens that a model was trained on.
//
// A renderer formats turns as the model's chat template does. The text between two special tokens is
// tokenized as a whole, and only the template produces special tokens: a user who writes <|im_end|> gets
// the ordinary tokens that spell it, and so does a message that quotes <think>.
//
// The chat template of a model is interpreted by package jinja. That of Qwen3 is also implemented in Go,
// which is faster; the published template is recognised by its hash.
//
// The package knows nothing of problems, of prompts (see data), or of what a completion means.
package chat

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/precondition"
)

// Message is one turn, with the customary JSON names.
type Message struct {
	Role    string `json:"role"` // system, user, assistant or tool
	Content string `json:"content"`
	// Structured is a content other than a string, as JSON, such as the result of a tool. Only a model's own template
	// can render it.
	Structured json.RawMessage `json:"-"`
	// Reasoning is the thoughts of an assistant, without the <think> tags. If it is nil, Content may have
	// thoughts between the tags.
	Reasoning *string    `json:"reasoning_content,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"` // templates distinguish an empty list from none
	// Name is the speaker, and ToolCallID the call that a tool message answers, for templates that use them.
	Name       string `json:"name,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
}

// ToolCall is a call of a tool by an assistant.
type ToolCall struct {
	Name string
	// Arguments is a JSON object, or a JSON string that contains one and is rendered verbatim.
	Arguments json.RawMessage
	ID        string // for templates that use it
}

type function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// UnmarshalJSON reads {"function":{"name":…,"arguments":…}}, or the inner object by itself.
func (c *ToolCall) UnmarshalJSON(data []byte) error {
	var v struct {
		function
		ID       string    `json:"id"`
		Function *function `json:"function"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	if v.Function != nil {
		v.function = *v.Function
	}
	*c = ToolCall{v.Name, v.Arguments, v.ID}
	return nil
}

// MarshalJSON writes the longer form.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	call := map[string]any{"type": "function", "function": function{c.Name, c.Arguments}}
	if c.ID != "" {
		call["id"] = c.ID
	}
	return json.Marshal(call)
}

// Tool is the JSON object that declares a function to the model.
type Tool = json.RawMessage

// Renderer turns messages into tokens. It is immutable and safe for concurrent use.
type Renderer struct {
	name     string
	style    style
	template *template // nil: a Qwen style, which is implemented in Go
	tok      *tokenizer.Tokenizer
	tokens   map[string]int32 // the special tokens of the template that the tokenizer has
}

// style distinguishes the renderers of the Qwen family.
type style struct {
	// frames writes the last thoughts of an assistant between <think> tags and drops earlier ones.
	frames bool
	// closed ends a prompt with empty thoughts, so that the model answers without thinking.
	closed bool
}

var styles = map[string]style{
	"qwen3_instruct":         {},
	"qwen3":                  {frames: true},
	"qwen3_disable_thinking": {frames: true, closed: true},
}

// Names lists the renderers that are implemented in Go.
func Names() []string {
	names := make([]string, 0, len(styles))
	for name := range styles {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// The special tokens of the templates. A tokenizer must have the first two; the others are written as
// text if it lacks them.
const (
	imStart      = "<|im_start|>"
	imEnd        = "<|im_end|>"
	think        = "<think>"
	thinkEnd     = "</think>"
	toolCall     = "<tool_call>"
	toolCallEnd  = "</tool_call>"
	response     = "<tool_response>"
	responseEnd  = "</tool_response>"
	roleUser     = "user"
	roleSystem   = "system"
	roleTool     = "tool"
	roleAnswerer = "assistant"
)

// New returns a renderer by its name, one of Names or plain.
func New(name string, tok *tokenizer.Tokenizer) (*Renderer, error) {
	if name == plain {
		return Plain(tok)
	}
	s, ok := styles[name]
	if !ok {
		return nil, badinput.Errorf("renderer: found %q, expected one of %s, %s", name, plain, strings.Join(Names(), ", "))
	}
	precondition.NotNil("chat.New", "tok", tok)
	r := &Renderer{name: name, style: s, tok: tok, tokens: map[string]int32{}}
	for _, t := range tok.SpecialTokens() {
		r.tokens[t.Content] = t.ID
	}
	for _, t := range []string{imStart, imEnd} {
		if _, ok := r.tokens[t]; !ok {
			return nil, badinput.Errorf("renderer %s: the tokenizer has no special token %s", name, t)
		}
	}
	return r, nil
}

// provedTemplates maps the SHA-256 of templates to the renderer that is tested to give the same text and tokens: the published
// template of Qwen3, and Template.
var provedTemplates = map[string]string{
	"87a2728cb8dc9fe424d624542f6060ec05a1d285ebbec578bb078900e33396b5": "qwen3",
	hash(Template): "qwen3_instruct",
}

func hash(template string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(template))) }

// ForModel returns the renderer of the chat template of a tokenizer.
func ForModel(tok *tokenizer.Tokenizer, o Options) (*Renderer, error) {
	precondition.NotNil("chat.ForModel", "tok", tok)
	switch name, ok := provedTemplates[hash(tok.ChatTemplate())]; {
	case tok.ChatTemplate() == "" && len(tok.Templates()) > 0:
		return nil, badinput.Errorf("the model has the chat templates %s, and none named default; copy one of them to "+
			"chat_template.jinja, or choose a renderer by name: %s, %s", strings.Join(tok.Templates(), ", "), plain, strings.Join(Names(), ", "))
	case tok.ChatTemplate() == "":
		return nil, badinput.Errorf("the model has no chat template; choose a renderer by name: %s, %s", plain, strings.Join(Names(), ", "))
	case ok && len(o.Vars) == 0 && tok.ToolTemplate() == "":
		return New(name, tok)
	}
	return fromTemplate(tok, o)
}

// Name is the name that New was given, or "template".
func (r *Renderer) Name() string { return r.name }

// Stop lists the tokens that end an assistant's turn.
func (r *Renderer) Stop() []int32 {
	if r.template != nil {
		return slices.Clone(r.template.stop)
	}
	return []int32{r.tokens[imEnd]}
}

// Extends reports whether further turns only append tokens to a conversation. They do not if the renderer
// drops the thoughts of earlier turns. Adjacent tool messages count as one turn.
func (r *Renderer) Extends() bool {
	if r.template != nil {
		return r.template.extends
	}
	return !r.style.frames
}

// Prompt renders messages and the start of the assistant's turn.
func (r *Renderer) Prompt(messages []Message, tools ...Tool) (tokens []int32, text string, err error) {
	return r.render(messages, tools, true)
}

// Conversation renders messages without starting another turn.
func (r *Renderer) Conversation(messages []Message, tools ...Tool) (tokens []int32, text string, err error) {
	return r.render(messages, tools, false)
}
