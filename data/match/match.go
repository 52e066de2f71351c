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

// By is how an answer is compared with what is expected. The set is closed.
type By string

const (
	// Exact requires that the final answer, or the whole text, equals the expected text, except for leading and trailing space. Case
	// and the space between words count.
	Exact By = "exact"
	// Regex requires a match of an RE2 pattern somewhere in the text.
	Regex By = "regex"
	// JSONSchema requires that the text, or its last fenced block, is JSON that conforms to a schema.
	JSONSchema By = "json_schema"
	// Math requires that the final answer has the expected value.
	Math By = "math"
)

// Names are the values of By.
func Names() []By { return []By{Exact, Regex, JSONSchema, Math} }

// Matcher compares answers with what is expected. It is safe for concurrent use.
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

// Result is the result of matching an answer.
type Result struct {
	Answered bool   // the text has something that could be right
	Right    bool   // the answer is right
	Got      string // the part that was taken for the answer
}

// Match matches the text of a model.
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
		r.Right = r.Answered && countable(value) && m.schema.accepts(value)
	}
	return r
}
