// Package jinja renders the chat templates that models are published with: Jinja as Hugging Face's
// transformers set it up (trim_blocks, lstrip_blocks, loop controls, generation blocks, tojson in its form,
// raise_exception, strftime_now).
//
// It is an interpreter of its own for two reasons. A template comes from a stranger, so each step, each
// byte that is made and each level of depth is counted against a limit, and there is nothing in it that reads a
// file, a clock or chance. And every text knows which of its bytes are somebody's words and which the
// template's (Text), through all that a template does with it: a user who writes <|im_end|> cannot end a turn.
//
// The package knows nothing of tokens, and of conversations only what it is given as variables.
package jinja

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/data/chat/jinja/syntax"
)

// The limits of a template. Each step costs about 50 ns.
const (
	maxDepth     = 256 // of what is at work
	maxSteps     = 3 << 20
	bytesPerStep = 8 // of text that is made or searched
	stepsPerItem = 4 // of a list that is made
)

// Template is a parsed template. Any number of goroutines may render it.
type Template struct{ body []syntax.Statement }

// Refusal is what a template says with raise_exception.
type Refusal struct{ Message string }

func (r *Refusal) Error() string { return r.Message }

// Parse reads a template.
func Parse(source string) (*Template, error) {
	body, err := syntax.Parse(source)
	if err != nil {
		return nil, err
	}
	return &Template{body}, nil
}

// Options say what a template may ask for beside its variables.
type Options struct {
	// Strftime formats the date that strftime_now asks for.
	Strftime func(format string) (string, error)
}

// Render carries a template out. A *Refusal is what the template itself raises.
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

// interpreter is one rendering. What goes wrong is a panic with a *failure.
type interpreter struct {
	options Options
	globals *Dict
	scope   *scope
	out     *joiner
	steps   int
	depth   int
	loops   int    // that are at work in the innermost macro
	left    signal // how the innermost loop is being left
}

type failure struct{ err error }

func (in *interpreter) fail(format string, args ...any) {
	panic(&failure{fmt.Errorf(format, args...)})
}

// charge counts steps.
func (in *interpreter) charge(n int) {
	if in.steps += n; in.steps > maxSteps || n < 0 {
		in.fail("it takes more than %d steps", maxSteps)
	}
}

// made counts a text that a template makes.
func (in *interpreter) made(t Text) Text {
	in.charge(1 + len(t.S)/bytesPerStep + len(t.Data))
	return t
}

// room asks whether a text of n bytes may be made.
func (in *interpreter) room(n int) { in.charge(n/bytesPerStep + 1) }

func (in *interpreter) enter() {
	if in.depth++; in.depth > maxDepth {
		in.fail("it goes more than %d deep", maxDepth)
	}
	in.charge(1)
}

func (in *interpreter) leave() { in.depth-- }

// list makes a list of values.
func (in *interpreter) list(items []Value) *List {
	in.charge(stepsPerItem * len(items))
	return &List{Items: items}
}

// scope holds the variables that are set in a part of a template.
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

// inner carries out what has variables of its own.
func (in *interpreter) inner(outer *scope, do func()) {
	before := in.scope
	in.scope = &scope{map[string]Value{}, outer}
	do()
	in.scope = before
}

// capture gives what is printed meanwhile.
func (in *interpreter) capture(do func()) Text {
	before := in.out
	in.out = &joiner{}
	do()
	text := in.out.text()
	in.out = before
	return text
}
