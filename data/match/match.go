package match

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
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
	schema  *jsonschema.Schema
}

// New makes a matcher. want is a text, a pattern, a JSON schema, or mathematics.
func New(by By, want string) (*Matcher, error) {
	m := &Matcher{by: by, want: want}
	var err error
	switch by {
	case Exact:
		m.want = strings.TrimSpace(want)
	case Math:
		if strings.TrimSpace(want) == "" {
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

// compile reads a schema that refers to nothing outside of itself.
func compile(text string) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	if !countable(doc) {
		return nil, errors.New("found a number with an exponent beyond 10000")
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	if err := c.AddResource("grpo:schema", doc); err != nil {
		return nil, err
	}
	return c.Compile("grpo:schema")
}

// nowhere is where schemas are loaded from.
type nowhere struct{}

// Load refuses.
func (nowhere) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: schemas of other places are not read; expected the whole schema in one", url)
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
		if r.Got, r.Answered = Final(said); !r.Answered {
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
		r.Right = r.Answered && countable(value) && m.schema.Validate(value) == nil
	}
	return r
}

// countable tells whether the numbers of a JSON value can be calculated with: the library of schemas does so in fractions, in which
// 1e400000 takes its time, and 1e9999999 is none and makes it panic.
func countable(value any) bool {
	switch v := value.(type) {
	case json.Number:
		if at := strings.IndexAny(string(v), "eE"); at >= 0 {
			power, err := strconv.Atoi(string(v[at+1:]))
			return err == nil && -10_000 < power && power < 10_000
		}
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !countable(e) })
	case map[string]any:
		for _, e := range v {
			if !countable(e) {
				return false
			}
		}
	}
	return true
}
