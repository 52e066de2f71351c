package match

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed-7879b91d/grpo/data/match/mathvalue"
)

// By is how an answer is held to what is wanted. The set is closed.
type By string

const (
	// Exact wants the same words: the final answer, or all that was said. Case, and how much space is between words, count
	// as written but for the space around.
	Exact By = "exact"
	// Regex wants a place in what was said that an RE2 pattern matches.
	Regex By = "regex"
	// JSONSchema wants JSON of a schema: what was said, or its last fenced block.
	JSONSchema By = "json_schema"
	// Math wants the value of the final answer.
	Math By = "math"
)

// Names are the values of By.
func Names() []By { return []By{Exact, Regex, JSONSchema, Math} }

// Matcher holds answers to what is wanted. It is safe for concurrent use.
type Matcher struct {
	by      By
	want    string
	pattern *regexp.Regexp
	schema  *schema
}

// New makes a matcher. want is a text, a pattern, a JSON schema, or mathematics.
func New(by By, want string) (*Matcher, error) {
	m := &Matcher{by: by, want: want}
	var err error
	switch by {
	case Exact:
		m.want = strings.TrimSpace(want)
	case Math:
		if m.want = firstSentence(want); strings.TrimSpace(want) == "" {
			err = fmt.Errorf("math: expected an answer, found blank text")
		}
	case Regex:
		if m.pattern, err = regexp.Compile(want); err != nil {
			err = fmt.Errorf("regex: %w", err)
		}
	case JSONSchema:
		if m.schema, err = compile(want); err != nil {
			err = fmt.Errorf("json_schema: %w", err)
		}
	default:
		err = fmt.Errorf("found %q, expected one of %v", by, Names())
	}
	return m, err
}

// Result is what came of an answer.
type Result struct {
	Answered bool   // there is something in the text that could be right
	Right    bool   // it is
	Got      string // what was taken for the answer
}

// Match looks at what a model said.
func (m *Matcher) Match(text string) (r Result) {
	said := Said(text)
	switch m.by {
	case Exact:
		if r.Got = said; r.Got != m.want {
			if final, ok := Final(said); ok {
				r.Got = final
			}
		}
		r.Answered = r.Got != ""
		r.Right = r.Answered && r.Got == m.want
	case Math:
		if r.Got, r.Answered = Final(said); r.Answered {
			r.Got = firstSentence(r.Got)
		} else {
			r.Got, r.Answered = lastNumber(said)
		}
		r.Right = r.Answered && mathvalue.Equal(withoutUnit(r.Got, m.want), m.want)
	case Regex:
		r.Got, r.Answered = said, said != ""
		r.Right = r.Answered && m.pattern.MatchString(said)
	case JSONSchema:
		r.Got = document(said)
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(r.Got)))
		r.Answered = err == nil && json.Valid([]byte(r.Got))
		r.Right = r.Answered && countable(value) && m.schema.takes(value)
	}
	return r
}
