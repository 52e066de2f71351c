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

// schema is a JSON schema with a bound on the work of one validation: with a schema that refers to itself twice, every level of nesting
// in an answer doubles the work.
type schema struct {
	root *jsonschema.Schema
	mu   sync.Mutex
	left int // steps of the current validation
}

// mostSteps bounds how many times a validation may apply a subschema to a value; so many take about a second.
const mostSteps = 1 << 19

// name is the schema's name to the compiler.
const name = "grpo:schema"

var errSteps = errors.New("too many steps")

// accepts reports whether a value conforms to the schema. A value that takes more than mostSteps does not.
func (s *schema) accepts(value any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = mostSteps
	return s.root.Validate(value) == nil && s.left >= 0
}

// compile reads a schema, which may refer to nothing outside itself.
func compile(text string) (*schema, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	if !countable(doc) {
		return nil, errors.New("found a number with an exponent beyond 10000")
	}
	if _, err := compiled(doc, nil); err != nil { // checks by the whole metaschema; compileCounting applies part of it
		return nil, explained(err)
	}
	return compileCounting(doc)
}

// explained is an error of the compiler in one line, without the compiler's own name for the schema.
func explained(err error) error {
	if wrong := new(jsonschema.SchemaValidationError); errors.As(err, &wrong) {
		return fmt.Errorf("not a valid JSON schema: %s", firstPlace(wrong.Err.Error()))
	}
	if nothing := new(jsonschema.JSONPointerNotFoundError); errors.As(err, &nothing) {
		return fmt.Errorf("$ref: found nothing at %q in the schema", strings.TrimPrefix(nothing.URL, name))
	}
	if other := new(jsonschema.LoadURLError); errors.As(err, &other) {
		return other.Err
	}
	return err
}

// firstPlace is the first of the wrong places that the library lists, each on a line below the places around it and indented deeper.
func firstPlace(text string) string {
	depth := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	lines := strings.Split(text, "\n")
	at := min(1, len(lines)-1)
	for at+1 < len(lines) && depth(lines[at+1]) > depth(lines[at]) {
		at++
	}
	return strings.TrimLeft(lines[at], " -")
}

// compiled compiles a schema; the vocabulary, if not nil, sees each subschema.
func compiled(doc any, steps *jsonschema.Vocabulary) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.UseLoader(noDocuments{})
	if steps != nil {
		c.RegisterVocabulary(steps)
		c.AssertVocabs()
	}
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	return c.Compile(name)
}

// noDocuments is a loader that refuses every reference to another document.
type noDocuments struct{}

// Load implements jsonschema.URLLoader.
func (noDocuments) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: other documents are not read; put the whole schema into one", url)
}

// compileCounting compiles a schema that counts its steps. The library offers no bound, but it checks the format of a subschema before the
// rest: each subschema gets a format that counts, and then checks its own.
func compileCounting(doc any) (s *schema, err error) {
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

// countable reports whether the exponents of all numbers in a JSON value are moderate. The schema library computes with exact fractions:
// 1e400000 takes it long, and at 1e9999999 it panics.
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
