// Package chat writes conversations as the tokens that a model was trained on.
//
// A renderer lays out turns as the model's chat template does. The text between two special tokens is
// tokenized as a whole, and a special token stands only where the template puts one: a user who writes
// <|im_end|> gets the ordinary tokens that spell it, and so does a message that quotes <think>.
//
// The chat template that a model comes with is interpreted by package jinja. Qwen3's is also written by hand, which is
// faster; the published template is known by its hash.
//
// The package knows nothing of problems, of how a question is put (see data), or of what a completion
// means.
package chat

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Message is one turn, with the JSON names that everybody uses.
type Message struct {
	Role    string `json:"role"` // system, user, assistant or tool
	Content string `json:"content"`
	// Structured is a content that is no string, as JSON, such as what a tool returned. Only a model's own template
	// can write it.
	Structured json.RawMessage `json:"-"`
	// Reasoning is what an assistant thought, without the <think> tags. Where it is nil, thoughts may
	// stand in Content between the tags.
	Reasoning *string    `json:"reasoning_content,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"` // templates tell an empty list from none
	// Name is who speaks, and ToolCallID what a tool's message answers, for templates that write them.
	Name       string `json:"name,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
}

// ToolCall is a call that an assistant makes.
type ToolCall struct {
	Name string
	// Arguments is a JSON object, or a JSON string that holds one and is written as it stands.
	Arguments json.RawMessage
	ID        string // for templates that write it
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

// Renderer turns messages into tokens. It does not change after New: goroutines may share one.
type Renderer struct {
	name     string
	style    style
	template *template // nil: the turns are written by hand
	tok      *tokenizer.Tokenizer
	tokens   map[string]int32 // the special tokens of the template that the tokenizer has
}

// style is what tells the renderers of the Qwen family apart.
type style struct {
	// frames puts an assistant's last thoughts between <think> tags and drops earlier ones.
	frames bool
	// closed ends a prompt with empty thoughts, so that the model answers at once.
	closed bool
}

var styles = map[string]style{
	"qwen3_instruct":         {},
	"qwen3":                  {frames: true},
	"qwen3_disable_thinking": {frames: true, closed: true},
}

// Names lists the renderers that are written by hand.
func Names() []string {
	names := make([]string, 0, len(styles))
	for name := range styles {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// The tokens of the templates. The first two every tokenizer must have; the others are text where a
// tokenizer does not have them.
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

// New makes the renderer of that name, one of Names or plain.
func New(name string, tok *tokenizer.Tokenizer) (*Renderer, error) {
	if name == plain {
		return Plain(tok)
	}
	s, ok := styles[name]
	if !ok {
		return nil, badinput.Errorf("renderer: found %q, expected one of %s, %s", name, plain, strings.Join(Names(), ", "))
	}
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

// proved are the templates, by their SHA-256, for which the renderer of that name gives the same text and tokens:
// Qwen3's, as published, and Template.
var proved = map[string]string{
	"87a2728cb8dc9fe424d624542f6060ec05a1d285ebbec578bb078900e33396b5": "qwen3",
	hash(Template): "qwen3_instruct",
}

func hash(template string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(template))) }

// ForModel gives the renderer of the chat template that came with the tokenizer.
func ForModel(tok *tokenizer.Tokenizer, o Options) (*Renderer, error) {
	switch name, ok := proved[hash(tok.ChatTemplate())]; {
	case tok.ChatTemplate() == "" && len(tok.Templates()) > 0:
		return nil, badinput.Errorf("the model has chat templates by the names of %s, and none that is the default; copy one of them to "+
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

// Extends reports whether a conversation starts with the tokens of each of its beginnings. A renderer
// that drops old thoughts rewrites the past. Adjacent tool messages count as one turn.
func (r *Renderer) Extends() bool {
	if r.template != nil {
		return r.template.extends
	}
	return !r.style.frames
}

// Prompt renders messages and opens the assistant's turn.
func (r *Renderer) Prompt(messages []Message, tools ...Tool) (tokens []int32, text string, err error) {
	return r.render(messages, tools, true)
}

// Conversation renders messages that are complete, such as a finished dialogue.
func (r *Renderer) Conversation(messages []Message, tools ...Tool) (tokens []int32, text string, err error) {
	return r.render(messages, tools, false)
}
