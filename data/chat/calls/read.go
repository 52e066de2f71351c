package calls

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
)

// Said is a turn of a model.
type Said struct {
	Thoughts, Content string
	Calls             []chat.ToolCall
}

// Malformed is a call that cannot be parsed.
type Malformed struct {
	Call   string // as the model wrote it, with its tags
	Reason string // worded so that the model may be shown it
}

func (m *Malformed) Error() string { return "a tool call that cannot be read: " + m.Reason }

// Text decodes sampled tokens for a Reader: without control tokens, except those of the notation.
func (n Notation) Text(tok *tokenizer.Tokenizer, tokens []int32) string {
	marks, stream := n.Marks(tok), tok.NewStream(true)
	var text strings.Builder
	for _, id := range tokens {
		if mark, ok := marks[id]; ok {
			text.WriteString(stream.Flush() + mark)
		} else {
			text.WriteString(stream.Push(id))
		}
	}
	return text.String() + stream.Flush()
}

// Read reads a whole turn; thinking: its prompt ends within thoughts. If a call cannot be parsed, the error is a *Malformed; the
// other calls are still returned.
func (n Notation) Read(text string, thinking bool) (said Said, err error) {
	r := NewReader(n, thinking)
	for _, p := range append(r.Push(text), r.End()...) {
		said.Thoughts, said.Content = said.Thoughts+p.Thoughts, said.Content+p.Content
		if p.IsCall && p.Call == len(said.Calls) {
			said.Calls = append(said.Calls, chat.ToolCall{Name: p.Name})
		}
		if p.IsCall {
			said.Calls[p.Call].Arguments = append(said.Calls[p.Call].Arguments, p.Arguments...)
		}
	}
	for i := len(said.Calls) - 1; i >= 0; i-- {
		if text, broken := r.broken[i]; broken {
			said.Calls, err = slices.Delete(said.Calls, i, i+1), n.malformed(text)
		}
	}
	if err == nil {
		err = n.complain(said.Content)
	}
	return said, err
}

// complain returns an error if a call was taken for content because it is malformed.
func (n Notation) complain(content string) error {
	if !n.Calls {
		return nil
	}
	at := strings.Index(content, n.Open)
	if n.Open == "" {
		if content = strings.TrimSpace(content); !strings.HasPrefix(content, n.Prefix) {
			at = -1 // an answer may be JSON
		}
	}
	if at < 0 {
		return nil
	}
	return n.malformed(content[at:])
}

// malformed finds what is wrong with a text that begins as a call.
func (n Notation) malformed(text string) *Malformed {
	text = strings.TrimSpace(text)
	call := strings.TrimPrefix(strings.TrimPrefix(text, n.Open), n.Prefix)
	if before, _, closed := strings.Cut(call, n.Close); closed && n.Close != "" {
		text = text[:len(text)-len(call)] + before + n.Close
		call = before
	}
	name, arguments, named := strings.Cut(call, NameEnd)
	if named = named && n.List; named {
		name, _, _ = strings.Cut(strings.TrimSpace(name), nameID)
		call = `{"name": ` + quoted(name) + `, "` + n.ArgKeys[0] + `": ` + arguments + "}"
	} else if n.List {
		call = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(call), "["), "]")
	}
	m := &Malformed{Call: text}
	var object map[string]json.RawMessage
	switch err := json.Unmarshal([]byte(call), &object); {
	case err != nil:
		m.Reason = fmt.Sprintf("expected a JSON object, and read %v", err)
	case json.Unmarshal(object["name"], &name) != nil || name == "":
		m.Reason = `"name": expected that of a tool`
	default:
		m.Reason = fmt.Sprintf("%q: expected one object", n.ArgKeys[0])
	}
	return m
}

// quoted is a text as a JSON string.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // cannot happen: every text has a JSON form
	}
	return string(b)
}
