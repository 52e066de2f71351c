package lesson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// Conversation is a conversation whose assistant turns are trained on.
type Conversation struct {
	Where    string // its row
	Messages []chat.Message
	Given    int // so many messages are the prompt: nothing of them is learned
	Tools    []chat.Tool

	statement string // of a prompt that is a text; what it is asked with is the wording's
}

// Preference is a prompt with two answers.
type Preference struct{ Chosen, Rejected Conversation }

// The columns that answers stand in.
var answerColumns = []string{"completion", "answer", "response", "output"}

// The columns that prompts stand in.
var promptColumns = []string{"prompt", "question", "instruction"}

// ReadConversation makes a conversation of a row: its messages, or its prompt and its answer.
func ReadConversation(r dataset.Record) (c Conversation, err error) {
	c.Where = r.Where
	if c.Tools, err = tools(r); err != nil {
		return c, err
	}
	if r.Cells["messages"] != nil {
		if c.Messages, err = messages(r, "messages"); err != nil {
			return c, err
		}
		return c, c.check("messages")
	}
	name := first(r, answerColumns)
	if name == "" {
		return c, badinput.Errorf("%s: found %s; expected messages, or prompt with completion", r.Where, columns(r))
	}
	if err := c.prompt(r); err != nil {
		return c, err
	}
	said, err := answer(r, name)
	c.Messages = append(c.Messages, said...)
	if err != nil {
		return c, err
	}
	return c, c.check(name)
}

// ReadPreference makes a preference of a row: its prompt, what was chosen and what was rejected. Where it has no prompt, that is
// what both begin with.
func ReadPreference(r dataset.Record) (p Preference, err error) {
	for _, side := range []struct {
		name string
		to   *Conversation
	}{{"chosen", &p.Chosen}, {"rejected", &p.Rejected}} {
		c := side.to
		if r.Cells[side.name] == nil {
			return p, badinput.Errorf("%s: found %s; expected prompt, chosen and rejected", r.Where, columns(r))
		}
		c.Where = r.Where
		if c.Tools, err = tools(r); err != nil {
			return p, err
		}
		said, err := answer(r, side.name)
		if err != nil {
			return p, err
		}
		if first(r, promptColumns) != "" {
			if err := c.prompt(r); err != nil {
				return p, err
			}
			if n := c.Given; len(said) > n && sameMessages(said[:n], c.Messages) { // which some sets repeat
				said = said[n:]
			}
		}
		c.Messages = append(c.Messages, said...)
	}
	if first(r, promptColumns) == "" {
		p.share()
	}
	for name, c := range map[string]*Conversation{"chosen": &p.Chosen, "rejected": &p.Rejected} {
		if c.Given == 0 {
			return p, badinput.Errorf("%s: there is no prompt, and chosen and rejected begin with no message in common", r.Where)
		}
		if err := c.check(name); err != nil {
			return p, err
		}
	}
	if sameMessages(p.Chosen.Messages, p.Rejected.Messages) {
		return p, badinput.Errorf("%s: chosen and rejected are the same", r.Where)
	}
	return p, nil
}

// share makes the common prefix of both conversations their prompt.
func (p *Preference) share() {
	a, b := p.Chosen.Messages, p.Rejected.Messages
	n := 0
	for n < min(len(a), len(b)) && sameMessages(a[n:n+1], b[n:n+1]) {
		n++
	}
	p.Chosen.Given, p.Rejected.Given = n, n
}

// prompt reads the messages that are not trained on.
func (c *Conversation) prompt(r dataset.Record) (err error) {
	name := first(r, promptColumns)
	if name == "" {
		return badinput.Errorf("%s: found %s; expected a prompt", r.Where, columns(r))
	}
	if text, ok := text(r.Cells[name]); ok {
		c.Messages, c.statement = []chat.Message{{Role: "user", Content: text}}, text
	} else if c.Messages, err = messages(r, name); err != nil {
		return err
	}
	c.Given = len(c.Messages)
	return nil
}

// Unread tells whether a row has, besides its prompt, a text in the column "input" of instruction data sets, which is not read.
func Unread(r dataset.Record) bool {
	beside, _ := text(r.Cells["input"])
	return r.Cells["messages"] == nil && first(r, promptColumns) != "" && strings.TrimSpace(beside) != ""
}

// Silent tells whether a message of the assistant that is learned says nothing and calls no tool.
func (c *Conversation) Silent() bool {
	return slices.ContainsFunc(c.Messages[min(c.Given, len(c.Messages)):], func(m chat.Message) bool {
		return isAssistant(m) && strings.TrimSpace(m.Content) == "" && len(m.ToolCalls) == 0 && len(m.Structured) == 0
	})
}

// check requires a turn to train on, and something before it.
func (c *Conversation) check(name string) error {
	learned := slices.IndexFunc(c.Messages[min(c.Given, len(c.Messages)):], isAssistant)
	switch {
	case learned < 0:
		return badinput.Errorf("%s: %s: no message of the assistant to learn from; found messages of %s", c.Where, name, c.roles())
	case c.Given+learned == 0:
		return badinput.Errorf("%s: %s: it begins with the assistant; expected another message before", c.Where, name)
	}
	return nil
}

// roles names who says something, in the order in which they begin to.
func (c *Conversation) roles() string {
	var all []string
	for _, m := range c.Messages {
		if !slices.Contains(all, m.Role) {
			all = append(all, m.Role)
		}
	}
	if len(all) == 0 {
		return "nobody"
	}
	return strings.Join(all, ", ")
}

func isAssistant(m chat.Message) bool { return m.Role == "assistant" }

// answer is a text that the assistant says, or messages.
func answer(r dataset.Record, name string) ([]chat.Message, error) {
	if text, ok := text(r.Cells[name]); ok {
		return []chat.Message{{Role: "assistant", Content: text}}, nil
	}
	return messages(r, name)
}

// messages are those of a column: a list, or a text that is one, as some sets have it.
func messages(r dataset.Record, name string) (all []chat.Message, err error) {
	raw := r.Cells[name]
	if text, ok := text(raw); ok {
		raw = json.RawMessage(text)
	}
	if raw = bytes.TrimSpace(raw); len(raw) > 0 && raw[0] == '{' {
		raw = slices.Concat([]byte("["), raw, []byte("]"))
	}
	if len(raw) > 0 && raw[0] != '[' {
		expected := "a text, or a list"
		if name == "messages" {
			expected = "a list"
		}
		return nil, badinput.Errorf("%s: %s: found %s; expected %s of {\"role\": …, \"content\": …}", r.Where, name,
			shortened(r.Cells[name]), expected)
	}
	if err := json.Unmarshal(dropNulls(raw), &all); err != nil {
		return nil, badinput.Errorf("%s: %s: %w; expected a list of {\"role\": …, \"content\": …}", r.Where, name,
			jsonl.Explain(err))
	}
	for i, m := range all {
		if m.Role == "" {
			return nil, badinput.Errorf("%s: %s: message %d has no role; expected system, user, assistant or tool", r.Where, name, i+1)
		}
	}
	return all, nil
}

// shortened is the beginning of what was found.
func shortened(raw []byte) string {
	if len(raw) > 40 {
		return string(bytes.ToValidUTF8(raw[:40], nil)) + "…"
	}
	return string(raw)
}

// dropNulls takes members out of messages that are null, as the rows of Parquet files have them.
func dropNulls(raw json.RawMessage) json.RawMessage {
	var list []map[string]json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return raw // whoever reads it says why
	}
	for _, m := range list {
		for key, value := range m {
			if string(bytes.TrimSpace(value)) == "null" && key != "content" {
				delete(m, key)
			}
		}
	}
	if text, err := json.Marshal(list); err == nil {
		return text
	}
	return raw
}

// tools are those that the assistant is told of.
func tools(r dataset.Record) (all []chat.Tool, err error) {
	raw := r.Cells["tools"]
	if raw == nil {
		return nil, nil
	}
	if text, ok := text(raw); ok {
		if raw = json.RawMessage(text); strings.TrimSpace(text) == "" {
			return nil, nil
		}
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, badinput.Errorf("%s: tools: %w; expected a list of declarations", r.Where, jsonl.Explain(err))
	}
	return all, nil
}

// text is a cell that is one.
func text(raw json.RawMessage) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return s, json.Unmarshal(raw, &s) == nil
}

// first is the first of these columns that a row has, "" where it has none.
func first(r dataset.Record, names []string) string {
	if i := slices.IndexFunc(names, func(name string) bool { return r.Cells[name] != nil }); i >= 0 {
		return names[i]
	}
	return ""
}

// columns names those that a row has, for messages.
func columns(r dataset.Record) string {
	var names []string
	for name := range r.Cells {
		names = append(names, name)
	}
	if len(names) == 0 {
		return "no columns"
	}
	slices.Sort(names)
	return "the columns " + strings.Join(names, ", ")
}

// sameMessages compares messages as they are written.
func sameMessages(a, b []chat.Message) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}
