// Package prompt makes the conversation that asks a model to solve a problem. It does not know how a
// conversation becomes tokens: the renderer does that.
package prompt

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/openfile"
)

// Builder makes the conversation for a problem from a template.
type Builder struct {
	name   string
	source string
	text   *template.Template

	answers *template.Template // for problems whose answer is not a program, in the project's prompts; nil: text
	asserts *template.Template // for problems whose tests are assertions, in the default prompt; nil: text
}

// Fingerprint is the SHA-256 of the templates that the problems of these sets use.
func (b *Builder) Fingerprint(sets ...[]data.Problem) string {
	source := b.source
	isAnswer := func(p data.Problem) bool { return p.Kind == data.Answer }
	if b.answers != nil && slices.ContainsFunc(slices.Concat(sets...), isAnswer) {
		source += answerText
	}
	isAssert := func(p data.Problem) bool { return p.Kind == data.Assert }
	if b.asserts != nil && slices.ContainsFunc(slices.Concat(sets...), isAssert) {
		source += assertText
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(source)))
}

// fields is what a template can use.
type fields struct {
	ID, Source  string
	Statement   string
	StarterCode string // "" if the problem has none
	Kind        string // "stdin", "call", "answer" or "assert"
	FuncName    string // for calls
	Match       string // for answers: "exact", "regex", "json_schema" or "math"
}

var functions = template.FuncMap{
	"trim":      strings.TrimSpace,
	"trimRight": func(s string) string { return strings.TrimRight(s, " \t\r\n") },
}

var (
	//go:embed default.tmpl
	defaultText string
	//go:embed answer.tmpl
	answerText string
	//go:embed assert.tmpl
	assertText string
)

// Default is the builder with the default template: one user message.
func Default() *Builder {
	b, err := Own("the default prompt template", defaultText)
	if err == nil {
		b.asserts, err = template.New("user").Funcs(functions).Parse(strings.TrimSuffix(assertText, "\n"))
	}
	if err != nil {
		panic(err) // the templates are embedded: a test parses them
	}
	return b
}

// Own parses a template of the project for programs. Problems whose answer is not a program use the same template in all of them.
func Own(name, text string) (*Builder, error) {
	b, err := Parse(name, text)
	if err == nil {
		b.answers, err = template.New("user").Funcs(functions).Parse(strings.TrimSuffix(answerText, "\n"))
	}
	return b, err
}

// Load reads a template of Go's text/template. It may use .Statement, .StarterCode, .Kind ("stdin",
// "call", "answer" or "assert"), .FuncName, .Match, .ID and .Source, and the functions trim and trimRight. Its
// output is the user message, except for one line feed at the end of the file; a template defined in it under
// the name "system" is the system message.
func Load(path string) (*Builder, error) {
	text, err := openfile.Read(path)
	if err != nil {
		return nil, badinput.Errorf("prompt_template: %w", err)
	}
	if !utf8.Valid(text) {
		return nil, badinput.Errorf("prompt_template %s: found bytes that are not UTF-8", path)
	}
	return Parse("prompt_template "+path, string(text))
}

// Parse parses the text of a template, as Load does; name is its name in messages. It also executes the
// template for a problem of each kind, so that faults show before a run.
func Parse(name, text string) (*Builder, error) {
	text = strings.TrimSuffix(text, "\n")
	t, err := template.New("user").Funcs(functions).Parse(text)
	if err != nil {
		return nil, badinput.Errorf("%s: %w", name, err)
	}
	b := &Builder{name: name, source: text, text: t}
	const mark = "the statement of the task"
	for _, p := range []data.Problem{
		{Statement: mark, Kind: data.Stdin},
		{Statement: mark, Kind: data.Stdin, StarterCode: "x"},
		{Statement: mark, Kind: data.Call, FuncName: "f"},
		{Statement: mark, Kind: data.Call, FuncName: "f", StarterCode: "def f(): ..."},
	} {
		messages, err := b.Messages(&p)
		if err != nil {
			return nil, err
		}
		if !strings.Contains(messages[len(messages)-1].Content, mark) {
			return nil, badinput.Errorf("%s: the user message leaves out the task; put {{.Statement}} where it belongs", name)
		}
	}
	return b, nil
}

// Messages is the conversation that asks for an answer to p: the user message, after a system message if
// the template has one.
func (b *Builder) Messages(p *data.Problem) ([]chat.Message, error) {
	f := fields{
		ID: p.ID, Source: p.Source, Statement: p.Statement,
		StarterCode: p.StarterCode, Kind: p.Kind.String(), FuncName: p.FuncName, Match: string(p.Match),
	}
	if strings.TrimSpace(f.StarterCode) == "" {
		f.StarterCode = "" // some collections write blanks for none
	}
	wording := b.text
	if p.Kind == data.Answer && b.answers != nil {
		wording = b.answers
	}
	if p.Kind == data.Assert && b.asserts != nil {
		wording = b.asserts
	}
	var messages []chat.Message
	for _, part := range []struct{ template, role string }{{"system", "system"}, {"user", "user"}} {
		t := wording.Lookup(part.template)
		if t == nil {
			continue
		}
		var out strings.Builder
		if err := t.Execute(&out, f); err != nil {
			return nil, badinput.Errorf("%s: %w", b.name, err)
		}
		messages = append(messages, chat.Message{Role: part.role, Content: out.String()})
	}
	if user := messages[len(messages)-1].Content; p.Kind == data.Answer && !strings.Contains(user, strings.TrimSpace(p.Statement)) {
		return nil, badinput.Errorf("%s: for problems of kind answer the user message leaves out the task; put {{.Statement}} where it belongs",
			b.name)
	}
	return messages, nil
}
