package chat

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Template is a Jinja template that renders system, user and assistant messages as qwen3_instruct does.
// It is for the tokenizer_config.json of a model that is trained from scratch.
const Template = `{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}`

// The text before and after the list of tools, as in the training of the Qwen models.
const (
	toolsHead = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
		"You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
	toolsFoot = "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
)

// writer collects text and special tokens, and tokenizes the text between two special tokens as a whole.
type writer struct {
	r       *Renderer
	ids     []int32
	all     strings.Builder
	pending int // start of the text in all that is not tokenized yet
}

func (w *writer) text(parts ...string) {
	for _, p := range parts {
		w.all.WriteString(p)
	}
}

// token writes a special token, or its text if the tokenizer has no such token.
func (w *writer) token(name string) {
	if id, ok := w.r.tokens[name]; ok {
		w.flush()
		w.ids = append(w.ids, id)
		w.all.WriteString(name)
		w.pending = w.all.Len()
		return
	}
	w.text(name)
}

func (w *writer) flush() {
	if text := w.all.String()[w.pending:]; text != "" {
		w.ids = w.r.tok.AppendText(w.ids, text)
	}
	w.pending = w.all.Len()
}

// turn writes a whole turn.
func (w *writer) turn(role, content string) {
	w.token(imStart)
	w.text(role, "\n", content)
	w.endTurn()
}

func (w *writer) endTurn() {
	w.token(imEnd)
	w.text("\n")
}

func (r *Renderer) render(messages []Message, tools []Tool, prompt bool) ([]int32, string, error) {
	if len(messages) == 0 {
		return nil, "", badinput.Errorf("conversation: no messages, expected one or more")
	}
	if r.template != nil {
		return r.template.render(r.tok, messages, tools, prompt)
	}
	w := &writer{r: r}
	if err := w.preamble(messages[0], tools); err != nil {
		return nil, "", err
	}
	query := lastQuery(messages)
	for i, m := range messages {
		if m.Structured != nil {
			return nil, "", badinput.Errorf("message %d: content: found JSON, but the renderer %s takes only strings", i, r.name)
		}
		if m.Role != roleAnswerer && len(m.ToolCalls) > 0 {
			return nil, "", badinput.Errorf("message %d: found tool calls in a message of role %s, expected them only in the assistant's", i, m.Role)
		}
		switch m.Role {
		case roleSystem:
			if i > 0 {
				w.turn(m.Role, m.Content)
			}
		case roleUser:
			w.turn(m.Role, m.Content)
		case roleAnswerer:
			w.token(imStart)
			w.text(m.Role, "\n")
			if err := w.answer(m, i > query, i == len(messages)-1); err != nil {
				return nil, "", badinput.Errorf("message %d: %w", i, err)
			}
			w.endTurn()
		case roleTool:
			w.toolResponse(m, i == 0 || messages[i-1].Role != roleTool, i == len(messages)-1 || messages[i+1].Role != roleTool)
		default:
			return nil, "", badinput.Errorf("message %d: found role %q, expected system, user, assistant or tool", i, m.Role)
		}
	}
	if prompt {
		w.openAnswer()
	}
	w.flush()
	return slices.Clip(w.ids), w.all.String(), nil // clipped, so that appending copies
}

// preamble writes the first system message, with the tools if there are any.
func (w *writer) preamble(first Message, tools []Tool) error {
	system := first.Role == roleSystem
	if len(tools) == 0 {
		if system {
			w.turn(roleSystem, first.Content)
		}
		return nil
	}
	w.token(imStart)
	w.text(roleSystem, "\n")
	if system {
		w.text(first.Content, "\n\n")
	}
	w.text(toolsHead)
	for i, tool := range tools {
		line, err := pythonJSON(tool)
		if err != nil {
			return badinput.Errorf("tool %d: %w", i, err)
		}
		w.text("\n", line)
	}
	w.text(toolsFoot)
	w.token(toolCall)
	w.token(toolCallEnd)
	w.text(" XML tags:\n")
	w.token(toolCall)
	w.text("\n", `{"name": <function-name>, "arguments": <args-json-object>}`, "\n")
	w.token(toolCallEnd)
	w.endTurn()
	return nil
}

// lastQuery is the index of the last user message that is not a tool response.
func lastQuery(messages []Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.Role == roleUser && !(strings.HasPrefix(m.Content, response) && strings.HasSuffix(m.Content, responseEnd)) {
			return i
		}
	}
	return len(messages) - 1
}

// answer writes the content of an assistant's turn. Thoughts are kept only after the last query.
func (w *writer) answer(m Message, current, last bool) error {
	content := m.Content
	if w.r.style.frames {
		var thoughts string
		content, thoughts = splitThoughts(m)
		if current && (last || thoughts != "") {
			w.token(think)
			w.text("\n", strings.Trim(thoughts, "\n"), "\n")
			w.token(thinkEnd)
			w.text("\n\n", strings.TrimLeft(content, "\n"))
		} else {
			w.text(content)
		}
	} else {
		w.text(content)
	}
	for i, call := range m.ToolCalls {
		if i > 0 || content != "" {
			w.text("\n")
		}
		arguments, err := call.arguments()
		if err != nil {
			return badinput.Errorf("tool call %d: %w", i, err)
		}
		w.token(toolCall)
		w.text("\n", `{"name": "`, call.Name, `", "arguments": `, arguments, "}\n")
		w.token(toolCallEnd)
	}
	return nil
}

// splitThoughts separates the thoughts of an assistant from the rest.
func splitThoughts(m Message) (content, thoughts string) {
	if m.Reasoning != nil {
		return m.Content, *m.Reasoning
	}
	before, _, found := strings.Cut(m.Content, thinkEnd)
	if !found {
		return m.Content, ""
	}
	content = m.Content[strings.LastIndex(m.Content, thinkEnd)+len(thinkEnd):]
	thoughts = strings.TrimRight(before, "\n")
	if i := strings.LastIndex(thoughts, think); i >= 0 {
		thoughts = thoughts[i+len(think):]
	}
	return strings.TrimLeft(content, "\n"), strings.TrimLeft(thoughts, "\n")
}

func (c *ToolCall) arguments() (string, error) {
	if c.Name == "" {
		return "", badinput.Errorf("name: missing")
	}
	if len(c.Arguments) == 0 {
		return "", badinput.Errorf("arguments: missing, expected a JSON object")
	}
	var text string
	if json.Unmarshal(c.Arguments, &text) == nil && c.Arguments[0] == '"' {
		return text, nil
	}
	text, err := pythonJSON(c.Arguments)
	if err != nil {
		return "", badinput.Errorf("arguments: %w", err)
	}
	return text, nil
}

// toolResponse writes the result of a tool. Adjacent results share a turn of the user.
func (w *writer) toolResponse(m Message, first, last bool) {
	if first {
		w.token(imStart)
		w.text(roleUser)
	}
	w.text("\n")
	w.token(response)
	w.text("\n", m.Content, "\n")
	w.token(responseEnd)
	if last {
		w.endTurn()
	}
}

// openAnswer writes the start of the assistant's turn.
func (w *writer) openAnswer() {
	w.token(imStart)
	w.text(roleAnswerer, "\n")
	if w.r.style.closed {
		w.token(think)
		w.text("\n\n")
		w.token(thinkEnd)
		w.text("\n\n")
	}
}
