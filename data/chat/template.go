package chat

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data/chat/jinja"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Options are inputs of a model's own template in addition to the conversation.
type Options struct {
	// Date is the current date for the template, as YYYY-MM-DD, so that a run does not depend on the day. "": none; a
	// template that asks for it fails.
	Date string
	// Vars are variables of the template as JSON: enable_thinking, date_string and so on.
	Vars map[string]json.RawMessage
}

// ParseVars parses Options.Vars from a JSON object; "": none.
func ParseVars(text string) (vars map[string]json.RawMessage, err error) {
	if text != "" && (json.Unmarshal([]byte(text), &vars) != nil || vars == nil) {
		return nil, badinput.Errorf("chat_vars: found %q, expected a JSON object such as {\"enable_thinking\": false}", text)
	}
	return vars, nil
}

// template renders conversations with a model's own template.
type template struct {
	whole, tools *jinja.Template // tools may be nil
	parts        map[string]string
	vars         []variable
	date         jinja.Options
	stop         []int32 // ends an assistant's turn
	extends      bool
}

type variable struct {
	name  string
	value jinja.Value
}

func fromTemplate(tok *tokenizer.Tokenizer, o Options) (*Renderer, error) {
	t := &template{parts: tok.Parts()}
	var err error
	if t.whole, err = jinja.Parse(tok.ChatTemplate()); err == nil && tok.ToolTemplate() != "" {
		t.tools, err = jinja.Parse(tok.ToolTemplate())
	}
	if err != nil {
		return nil, badinput.Errorf("the model's chat template: %w", err)
	}
	if t.date.Strftime, err = strftime(o.Date); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(o.Vars)) {
		value, err := jinja.FromJSON(o.Vars[name])
		if err != nil {
			return nil, badinput.Errorf("chat_vars: %s: %w", name, err)
		}
		t.vars = append(t.vars, variable{name, value})
	}
	r := &Renderer{name: "template", tok: tok, template: t}
	t.stop = r.turnEnd()
	t.extends = t.stop != nil && r.keepsHistory() // without a stop token, adjacent turns could be tokenized together
	return r, nil
}

func (t *template) render(tok *tokenizer.Tokenizer, messages []Message, tools []Tool, prompt bool) ([]int32, string, error) {
	vars := jinja.NewDict()
	set := func(name string, v jinja.Value) { vars.Set(jinja.Text{S: name}, v) }
	for part, token := range t.parts {
		set(part, jinja.Text{S: token})
	}
	list, err := messageValues(messages)
	if err != nil {
		return nil, "", err
	}
	set("messages", list)
	set("documents", nil)
	set("tools", nil)
	set("add_generation_prompt", prompt)
	use := t.whole
	if len(tools) > 0 {
		declared := &jinja.List{}
		for i, tool := range tools {
			v, err := jinja.FromJSON(tool)
			if err != nil {
				return nil, "", badinput.Errorf("tool %d: %w", i, err)
			}
			declared.Items = append(declared.Items, v)
		}
		set("tools", declared)
		if t.tools != nil {
			use = t.tools
		}
	}
	for _, v := range t.vars {
		set(v.name, v.value)
	}
	text, err := use.Render(vars, t.date)
	var refusal *jinja.Refusal
	if errors.As(err, &refusal) {
		return nil, "", badinput.Errorf("the model's chat template refuses the conversation: %w", refusal)
	}
	if err != nil {
		return nil, "", badinput.Errorf("the model's chat template: %w", err)
	}
	quoted := make([]tokenizer.Span, len(text.Data))
	for i, d := range text.Data {
		quoted[i] = tokenizer.Span(d)
	}
	return slices.Clip(tok.EncodeQuoting(text.S, quoted)), text.S, nil
}

// knownRoles are trusted: a template may build a special token from them, such as <|user|>.
var knownRoles = []string{roleSystem, roleUser, roleAnswerer, roleTool, "developer", "ipython", "model", "function", "observation"}

// messageValues converts messages to values of a template.
func messageValues(messages []Message) (*jinja.List, error) {
	list := &jinja.List{}
	for i, m := range messages {
		d := jinja.NewDict()
		set := func(key string, v jinja.Value) { d.Set(jinja.Text{S: key}, v) }
		if m.Role == "" {
			return nil, badinput.Errorf("message %d: role: missing, expected system, user, assistant or tool", i)
		}
		role := words(m.Role)
		if slices.Contains(knownRoles, m.Role) {
			role = jinja.Text{S: m.Role}
		}
		set("role", role)
		content, err := m.content()
		if err != nil {
			return nil, badinput.Errorf("message %d: content: %w", i, err)
		}
		set("content", content)
		if m.Reasoning != nil {
			set("reasoning_content", words(*m.Reasoning))
		}
		if m.ToolCalls != nil {
			calls, err := callValues(m.ToolCalls)
			if err != nil {
				return nil, badinput.Errorf("message %d: %w", i, err)
			}
			set("tool_calls", calls)
		}
		for _, of := range [][2]string{{"name", m.Name}, {"tool_call_id", m.ToolCallID}} { // ordered: a template may print the dict
			if of[1] != "" {
				set(of[0], words(of[1]))
			}
		}
		list.Items = append(list.Items, d)
	}
	return list, nil
}

func (m *Message) content() (jinja.Value, error) {
	if m.Structured != nil {
		return jinja.FromJSON(m.Structured)
	}
	return words(m.Content), nil
}

// words marks a text as data, which cannot form special tokens, and makes it valid UTF-8.
func words(s string) jinja.Text { return jinja.Words(strings.ToValidUTF8(s, "\uFFFD")) }

func callValues(calls []ToolCall) (*jinja.List, error) {
	list := &jinja.List{}
	for i, c := range calls {
		if c.Name == "" {
			return nil, badinput.Errorf("tool call %d: name: missing", i)
		}
		if len(c.Arguments) == 0 {
			return nil, badinput.Errorf("tool call %d: arguments: missing, expected a JSON object", i)
		}
		arguments, err := jinja.FromJSON(c.Arguments)
		if err != nil {
			return nil, badinput.Errorf("tool call %d: arguments: %w", i, err)
		}
		f, d := jinja.NewDict(), jinja.NewDict()
		f.Set(jinja.Text{S: "name"}, words(c.Name))
		f.Set(jinja.Text{S: "arguments"}, arguments)
		if c.ID != "" {
			d.Set(jinja.Text{S: "id"}, words(c.ID))
		}
		d.Set(jinja.Text{S: "type"}, jinja.Text{S: "function"})
		d.Set(jinja.Text{S: "function"}, f)
		list.Items = append(list.Items, d)
	}
	return list, nil
}
