package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/data/chat/calls"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/grammar"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
	"github.com/seed-7879b91d/grpo/sampler"
)

// shape is the constraint on an answer: a JSON document, calls of tools, or none.
type shape struct {
	document json.RawMessage // a JSON schema; nil: none
	tools    []tool          // that may be called
	once     bool            // exactly one call; else one or more
	words    bool            // calls are optional, but their arguments must fit
}

// tool is a function that a model may call.
type tool struct {
	name       string
	parameters json.RawMessage // a JSON schema
	strict     bool
}

// none reports that there is no constraint.
func (s shape) none() bool { return s.document == nil && len(s.tools) == 0 }

// noParameters is the schema of a function without parameters.
var noParameters = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)

// part is the grammar of the shape, in the model's notation of calls.
func (s shape) part(n calls.Notation) grammar.Part {
	if s.document != nil {
		return grammar.Schema(s.document)
	}
	if s.words {
		return grammar.TextWith(n.Open, s.inner(n))
	}
	if n.Open == "" {
		return s.inner(n)
	}
	call := grammar.Sequence(grammar.Mark(n.Open), s.inner(n))
	if s.once || n.List && !n.Named {
		return call
	}
	if n.Named {
		return grammar.Sequence(call, grammar.Repeat(call, 0, -1))
	}
	return grammar.Sequence(call, grammar.Repeat(grammar.Sequence(grammar.Text("\n"), call), 0, -1))
}

// inner is the grammar of a call, or a list of them, after its opening tag.
func (s shape) inner(n calls.Notation) grammar.Part {
	var each []grammar.Part
	for _, t := range s.tools {
		if n.Named {
			each = append(each, grammar.Sequence(grammar.Text(t.name), grammar.Mark(calls.NameEnd), grammar.Schema(t.parameters)))
			continue
		}
		name, err := json.Marshal(t.name)
		if err != nil {
			panic(err) // strings can always be encoded
		}
		before, after := `{"name": `+string(name)+`, "`+n.ArgKeys[0]+`": `, "}"
		if n.Close != "" {
			before, after = "\n"+before, after+"\n"
		}
		each = append(each, grammar.Sequence(grammar.Text(before), grammar.Schema(t.parameters), grammar.Text(after)))
	}
	switch one := grammar.Choice(each...); {
	case n.Named:
		return one
	case n.List && s.once:
		return grammar.Sequence(grammar.Text("["), one, grammar.Text("]"))
	case n.List:
		return grammar.Sequence(grammar.Text("["), one, grammar.Repeat(grammar.Sequence(grammar.Text(", "), one), 0, -1), grammar.Text("]"))
	case n.Close == "":
		return one
	default:
		return grammar.Sequence(one, grammar.Mark(n.Close))
	}
}

// mostShapes is how many grammars are cached.
const mostShapes = 32

// constraint compiles a shape, or takes its grammar from the cache. thinking: thoughts come before it.
func (l *Language) constraint(s shape, n calls.Notation, thinking bool) (func() sampler.Constraint, error) {
	key := fmt.Sprintf("%q %v %v %v %v %q %v", s.document, s.tools, s.once, s.words, thinking, n.Open, n.Named)
	l.mu.Lock()
	g := l.shapes[key]
	l.mu.Unlock()
	if g == nil {
		voc, err := l.vocabulary()
		if err != nil {
			return nil, err
		}
		part := s.part(n)
		if thinking {
			part = grammar.Sequence(grammar.Until(calls.ThinkClose), grammar.Text("\n\n"), part)
		}
		if g, err = grammar.Compile(voc, part); err != nil {
			return nil, err
		}
		l.mu.Lock()
		if l.shapes == nil || len(l.shapes) >= mostShapes {
			l.shapes = map[string]*grammar.Grammar{}
		}
		l.shapes[key] = g
		l.mu.Unlock()
	}
	return func() sampler.Constraint { return g.Start() }, nil
}

// vocabulary is built on first use.
func (l *Language) vocabulary() (*grammar.Vocabulary, error) {
	l.once.Do(func() { l.voc, l.vocErr = grammar.NewVocabulary(l.Tokenizer, l.Rows, l.Stops) })
	return l.voc, l.vocErr
}

// document reads response_format.
func (f *fields) document() json.RawMessage {
	var v struct {
		Type   string          `json:"type"`
		Own    json.RawMessage `json:"schema"` // as other servers have it
		Schema *struct {
			Schema      json.RawMessage `json:"schema"`
			Name        string          `json:"name"` // no effect
			Description string          `json:"description"`
			Strict      bool            `json:"strict"`
		} `json:"json_schema"`
	}
	if !exact(f, "response_format", &v, `an object such as {"type": "text"}`) {
		return nil
	}
	switch {
	case v.Own != nil && !isNull(v.Own):
		f.wrong("response_format", `found "schema" beside "type", expected {"type": "json_schema", "json_schema": {"name": …, "schema": {…}}}`)
	case v.Type == "text":
	case v.Type == "json_object":
		return json.RawMessage(`{"type":"object"}`)
	case v.Type == "json_schema" && v.Schema != nil && len(v.Schema.Schema) > 0 && !isNull(v.Schema.Schema):
		return v.Schema.Schema
	case v.Type == "json_schema":
		f.wrong("response_format", `json_schema without a schema, expected {"name": …, "schema": {…}}`)
	default:
		f.wrong("response_format", "found %q, expected text, json_object or json_schema", brief(v.Type))
	}
	return nil
}

// choice reads tool_choice.
func (c *toolChoice) choice(raw json.RawMessage, tools []tool) error {
	var named struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	switch text := string(raw); {
	case text == `"auto"`:
		for _, t := range tools {
			c.words = c.words || t.strict
		}
		if c.words {
			c.forced = tools
		}
	case text == `"none"`:
		*c = toolChoice{}
	case len(tools) == 0:
		return badinput.Errorf("found %s without tools", brief(raw))
	case text == `"required"`:
		c.forced = tools
	case json.Unmarshal(raw, &named) == nil && named.Type == "function" && named.Function.Name != "":
		for _, t := range tools {
			if t.name == named.Function.Name {
				c.forced, c.once = []tool{t}, true
				return nil
			}
		}
		return badinput.Errorf("found %q, which is not among the tools", brief(named.Function.Name))
	default:
		return badinput.Errorf("found %s, expected \"auto\", \"none\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": …}}",
			brief(raw))
	}
	return nil
}

// shaped adds the constraint of a shape to a request.
func (p *Policy) shaped(q *sampler.Request, s shape, f *format, thinking bool) error {
	if s.none() {
		return nil
	}
	field := "response_format"
	if s.document == nil {
		field = "tools"
		if !f.notation.Calls {
			return refusal.Field("tool_choice", "the tool-call format of %s is unknown; leave it out", p.Name)
		}
		if s.words && f.notation.Open == "" {
			return refusal.Field("tools",
				`strict: %s writes calls without tags, so strict works only with "tool_choice": "required"`, p.Name)
		}
	}
	c, err := p.Language.constraint(s, f.notation, thinking)
	if err != nil {
		return refusal.Field(field, "%s", refusal.Truncate(strings.ReplaceAll(err.Error(), "\n", "; "), longestReason))
	}
	q.Constrain, q.Params.StopTokens = c, p.Language.Stops
	return nil
}
