package openai

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/body"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// messages reads the conversation.
func (f *fields) messages() (list []chat.Message, err error) {
	found := f.list("messages", mostMessages, func(i int, part json.RawMessage) error {
		m, err := message(part)
		if err != nil {
			return refusal.Errorf(http.StatusBadRequest, "message %d: %v", i, err)
		}
		list = append(list, m)
		return nil
	})
	if f.err == nil && (!found || len(list) == 0) {
		f.wrong("messages", "none, expected one or more")
	}
	return list, f.err
}

// message reads one message.
func message(raw json.RawMessage) (m chat.Message, err error) {
	f := &fields{}
	if json.Unmarshal(raw, &f.all) != nil || f.all == nil {
		return m, refusal.Errorf(http.StatusBadRequest, "found %s, expected an object with role and content", brief(raw))
	}
	value(f, "role", &m.Role, "a text")
	switch m.Role {
	case "developer": // models know only three roles
		m.Role = "system"
	case "system", "user", "assistant", "tool":
	default:
		f.wrong("role", "found %q, expected system, developer, user, assistant or tool", brief(m.Role))
	}
	switch content, ok := f.take("content"); {
	case ok:
		if m.Content, err = contentText(content); err != nil {
			f.wrong("content", "%v", err)
		}
	case m.Role != "assistant": // an assistant's message may have calls in place of content
		f.wrong("content", "missing, expected a text")
	}
	value(f, "name", &m.Name, "a text")
	value(f, "tool_call_id", &m.ToolCallID, "a text")
	var thoughts string
	if value(f, "reasoning_content", &thoughts, "a text") {
		m.Reasoning = &thoughts
	}
	f.list("tool_calls", mostTools, func(i int, part json.RawMessage) error {
		var c chat.ToolCall
		if err := json.Unmarshal(part, &c); err != nil || c.Name == "" {
			return refusal.Errorf(http.StatusBadRequest, "call %d: found %s, expected an object with a function", i, brief(part))
		}
		if c.Arguments, err = object(c.Arguments); err != nil {
			return err
		}
		m.ToolCalls = append(m.ToolCalls, c)
		return nil
	})
	for _, ours := range []string{"refusal", "audio", "annotations", "function_call", "reasoning"} { // empty or null in our own answers
		if raw, ok := f.take(ours); ok && string(raw) != "[]" && string(raw) != `""` {
			f.wrong(ours, "found %s, which is not supported here", brief(raw))
		}
	}
	if f.err != nil {
		return m, f.err
	}
	for name, raw := range f.all {
		if !isNull(raw) {
			return m, refusal.Errorf(http.StatusBadRequest, "%q: no such field here", brief(name))
		}
	}
	return m, nil
}

// object parses the arguments of a call, which are JSON in a string.
func object(arguments json.RawMessage) (json.RawMessage, error) {
	var text string
	if json.Unmarshal(arguments, &text) == nil {
		arguments = json.RawMessage(strings.TrimSpace(text))
		if len(arguments) == 0 {
			arguments = json.RawMessage("{}")
		}
	}
	var any map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &any); err != nil || any == nil {
		return nil, refusal.Errorf(http.StatusBadRequest, "arguments: found %s, expected an object as a text", brief(arguments))
	}
	if err := body.CheckClientKeys(arguments); err != nil {
		return nil, refusal.Errorf(http.StatusBadRequest, "arguments: %v", err)
	}
	return arguments, nil
}

// contentText is the text of a content: a string, or parts of text.
func contentText(raw json.RawMessage) (string, error) {
	var text string
	if raw[0] == '"' {
		return text, json.Unmarshal(raw, &text)
	}
	if raw[0] != '[' {
		return "", refusal.Errorf(http.StatusBadRequest, "found %s, expected a text or a list of its parts", brief(raw))
	}
	var all strings.Builder
	err := each(raw, mostMessages, func(i int, part json.RawMessage) error {
		var p struct {
			Type string  `json:"type"`
			Text *string `json:"text"`
		}
		if json.Unmarshal(part, &p) != nil || p.Type == "text" && p.Text == nil {
			return refusal.Errorf(http.StatusBadRequest, "part %d: found %s, expected {\"type\": \"text\", \"text\": …}", i, brief(part))
		}
		if p.Type != "text" {
			return refusal.Errorf(http.StatusBadRequest, "part %d: found type %q, but the models here read only text", i, brief(p.Type))
		}
		all.WriteString(*p.Text)
		return nil
	})
	return all.String(), err
}

// tools reads the tools, and tool_choice.
func (f *fields) tools() (use toolChoice, err error) {
	var tools []tool
	f.list("tools", mostTools, func(i int, part json.RawMessage) error {
		t, err := readTool(part)
		if err != nil {
			return refusal.Errorf(http.StatusBadRequest, "tool %d: %v", i, err)
		}
		if slices.ContainsFunc(tools, func(other tool) bool { return other.name == t.name }) {
			return refusal.Errorf(http.StatusBadRequest, "tool %d: there is another function named %s; give one of them another name", i, t.name)
		}
		tools = append(tools, t)
		use.list = append(use.list, chat.Tool(part))
		return nil
	})
	parallel := true
	value(f, "parallel_tool_calls", &parallel, "true or false")
	use.once = !parallel
	raw, ok := f.take("tool_choice")
	if !ok {
		raw = []byte(`"auto"`)
	}
	if err := use.choice(raw, tools); err != nil {
		f.wrong("tool_choice", "%v", err)
	}
	return use, f.err
}

// functionName is what OpenAI allows as the name of a function.
var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// readTool reads a function that a model may call.
func readTool(part json.RawMessage) (one tool, err error) {
	var t struct {
		Type     string `json:"type"`
		Function *struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
			Strict     bool            `json:"strict"`
		} `json:"function"`
	}
	err = json.Unmarshal(part, &t)
	if why := mistyped(err); why != "" {
		return one, badinput.Errorf("%s", why)
	}
	if err != nil || t.Type != "function" || t.Function == nil {
		return one, badinput.Errorf("found %s, expected {\"type\": \"function\", \"function\": {\"name\": …}}", brief(part))
	}
	if !functionName.MatchString(t.Function.Name) {
		return one, badinput.Errorf("name: found %q, expected 1 to 64 letters, digits, dashes and underscores", brief(t.Function.Name))
	}
	one = tool{t.Function.Name, t.Function.Parameters, t.Function.Strict}
	if len(one.parameters) == 0 || isNull(one.parameters) {
		one.parameters = noParameters
	}
	one.parameters, err = anObject(one.parameters)
	return one, err
}

// anObject checks that a schema of parameters is that of an object, and adds the type if it is missing.
func anObject(parameters json.RawMessage) (json.RawMessage, error) {
	var schema map[string]json.RawMessage
	if json.Unmarshal(parameters, &schema) != nil {
		return nil, badinput.Errorf(`parameters: found %s, expected a schema of "type": "object"`, brief(parameters))
	}
	kind, said := schema["type"]
	switch {
	case said && compact(kind) != `"object"`:
		return nil, badinput.Errorf(`parameters: found "type": %s, expected "object"`, brief(kind))
	case said || slices.ContainsFunc([]string{"$ref", "anyOf", "oneOf", "allOf"}, func(key string) bool { return schema[key] != nil }):
		return parameters, nil
	}
	schema["type"] = json.RawMessage(`"object"`)
	return json.Marshal(schema)
}
