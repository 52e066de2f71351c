package match

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schema is a JSON schema with a bound on what one answer may cost: where a schema refers to itself twice, every level of an answer
// doubles the work.
type schema struct {
	root *jsonschema.Schema
	mu   sync.Mutex
	left int // steps
}

// mostSteps is how often parts of an answer may be held to parts of a schema: a second or so.
const mostSteps = 1 << 19

var errSteps = errors.New("too many steps")

// takes tells whether a value is of the schema. One that takes more steps is not.
func (s *schema) takes(value any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = mostSteps
	return s.root.Validate(value) == nil && s.left >= 0
}

// compile reads a schema that refers to nothing outside of itself.
func compile(text string) (*schema, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	if !countable(doc) {
		return nil, errors.New("found a number with an exponent beyond 10000")
	}
	if _, err := compiled(doc, nil); err != nil { // by the whole schema of schemas, of which one with steps is held to a part
		return nil, err
	}
	return limited(doc)
}

// compiled has each part of a schema pass by steps, where that is given.
func compiled(doc any, steps *jsonschema.Vocabulary) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	if steps != nil {
		c.RegisterVocabulary(steps)
		c.AssertVocabs()
	}
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

// limited compiles a schema that counts its steps. The library offers no bound, but looks at the format of a part before what is in it:
// each part is given one that counts.
func limited(doc any) (s *schema, err error) {
	s = &schema{}
	parts := map[*jsonschema.Schema]bool{}
	s.root, err = compiled(doc, &jsonschema.Vocabulary{
		URL: "grpo:steps",
		Compile: func(at *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
			parts[at.Enqueue(nil)] = true
			return nil, nil
		},
	})
	for part := range parts {
		of := part.Format
		part.Format = &jsonschema.Format{Name: "steps", Validate: func(v any) error {
			if s.left--; s.left < 0 {
				return errSteps
			}
			if of != nil {
				return of.Validate(v)
			}
			return nil
		}}
	}
	return s, err
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
