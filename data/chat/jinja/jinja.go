// Package jinja renders the chat templates that models are published with: Jinja as configured by Hugging
// Face's transformers (trim_blocks, lstrip_blocks, loop controls, generation blocks, their tojson,
// raise_exception, strftime_now).
//
// It is an interpreter of its own for two reasons. Templates are untrusted, so each step, each byte produced
// and each level of nesting counts against a limit, and a template cannot read files, the clock or random
// numbers. And every text records which of its bytes are data and which come from the template (Text),
// through all operations on it: a user who writes <|im_end|> cannot end a turn.
//
// The package knows nothing of tokens, and of conversations only the variables it is given.
package jinja

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/data/chat/jinja/syntax"
)

// The limits of a template. Each step costs about 50 ns.
const (
	maxDepth     = 256 // of nested statements, expressions and calls
	maxSteps     = 3 << 20
	bytesPerStep = 8 // of text that is produced or searched
	stepsPerItem = 4 // of a list that is produced
)

// Template is a parsed template. It is safe for concurrent use.
type Template struct{ body []syntax.Statement }

// Refusal is the error that a template raises by raise_exception.
type Refusal struct{ Message string }

func (r *Refusal) Error() string { return r.Message }

// Parse parses a template.
func Parse(source string) (*Template, error) {
	body, err := syntax.Parse(source)
	if err != nil {
		return nil, err
	}
	return &Template{body}, nil
}

// Options are inputs of a template in addition to its variables.
type Options struct {
	// Strftime implements strftime_now; nil: the template cannot ask for the date.
	Strftime func(format string) (string, error)
}

// Render executes a template. The error is a *Refusal if the template itself raised it.
func (t *Template) Render(vars *Dict, o Options) (text Text, err error) {
	in := &interpreter{options: o, globals: vars, out: &joiner{}, scope: &scope{vars: map[string]Value{}}}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *failure:
			err = r.err
		default:
			panic(r)
		}
	}()
	in.block(t.body)
	return in.out.text(), nil
}

// interpreter is the state of one rendering. Errors are panics with a *failure, which Render recovers.
type interpreter struct {
	options Options
	globals *Dict
	scope   *scope
	out     *joiner
	steps   int
	depth   int
	loops   int    // running in the innermost macro
	left    signal // how the innermost loop is being left
}

type failure struct{ err error }

func (in *interpreter) fail(format string, args ...any) {
	panic(&failure{fmt.Errorf(format, args...)})
}

// charge counts n steps, and fails beyond the limit.
func (in *interpreter) charge(n int) {
	if in.steps += n; in.steps > maxSteps || n < 0 {
		in.fail("it takes more than %d steps", maxSteps)
	}
}

// made charges for a text that was produced, and returns it.
func (in *interpreter) made(t Text) Text {
	in.charge(1 + len(t.S)/bytesPerStep + len(t.Data))
	return t
}

// room charges for a text of n bytes before it is produced or searched.
func (in *interpreter) room(n int) { in.charge(n/bytesPerStep + 1) }

func (in *interpreter) enter() {
	if in.depth++; in.depth > maxDepth {
		in.fail("it nests more than %d deep", maxDepth)
	}
	in.charge(1)
}

func (in *interpreter) leave() { in.depth-- }

// list charges for a list and makes it.
func (in *interpreter) list(items []Value) *List {
	in.charge(stepsPerItem * len(items))
	return &List{Items: items}
}

// scope holds the variables of a block, inside an outer scope.
type scope struct {
	vars  map[string]Value
	outer *scope
}

func (in *interpreter) lookup(name string) (Value, bool) {
	for s := in.scope; s != nil; s = s.outer {
		in.charge(1)
		if v, ok := s.vars[name]; ok {
			return v, true
		}
	}
	if v, ok := in.globals.Get(plain(name)); ok {
		return v, true
	}
	f, ok := globals[name]
	return f, ok
}

// inner calls do with a new scope inside outer.
func (in *interpreter) inner(outer *scope, do func()) {
	before := in.scope
	in.scope = &scope{map[string]Value{}, outer}
	do()
	in.scope = before
}

// capture returns the output of do.
func (in *interpreter) capture(do func()) Text {
	before := in.out
	in.out = &joiner{}
	do()
	text := in.out.text()
	in.out = before
	return text
}
