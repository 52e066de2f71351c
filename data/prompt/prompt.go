// Package prompt words the question that a model is asked about a problem. It does not know how a
// conversation becomes tokens: that is the renderer's.
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

// Builder makes conversations out of problems.
type Builder struct {
	name   string
	source string
	text   *template.Template

	answers *template.Template // of problems that want no program, in the project's own wording; nil: text
	asserts *template.Template // of problems whose tests are assertions, in the default wording; nil: text
}

// Fingerprint is the SHA-256 of the wording, as problems of these sets are asked with it.
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
	StarterCode string // "" where the problem has none
	Kind        string // "stdin", "call", "answer" or "assert"
	FuncName    string // of a call
	Match       string // of an answer: "exact", "regex", "json_schema" or "math"
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

// Default is the builder with the project's own wording: one user message.
func Default() *Builder {
	b, err := Own("the default prompt template", defaultText)
	if err == nil {
		b.asserts, err = template.New("user").Funcs(functions).Parse(strings.TrimSuffix(assertText, "\n"))
	}
	if err != nil {
		panic(err) // a test builds it
	}
	return b
}

// Own reads a wording of the project for programs, as Parse does. What wants no program has one in all of them.
func Own(name, text string) (*Builder, error) {
	b, err := Parse(name, text)
	if err == nil {
		b.answers, err = template.New("user").Funcs(functions).Parse(strings.TrimSuffix(answerText, "\n"))
	}
	return b, err
}

// Load reads a template of Go's text/template. It may use .Statement, .StarterCode, .Kind ("stdin",
// "call", "answer" or "assert"), .FuncName, .Match, .ID and .Source, and the functions trim and trimRight. Its text is the user
// message, to the letter, except that one line feed at the end of the file is the editor's; a
// template defined in it under the name "system" is the system message.
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

// Parse reads a template as Load does, from memory; name stands for it in messages. It also runs the
// template on a problem of each sort, so that its faults show before the run.
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

// Messages is the conversation that asks for an answer to p: the user message, after a system
// message where the template has one.
func (b *Builder) Messages(p *data.Problem) ([]chat.Message, error) {
	f := fields{
		ID: p.ID, Source: p.Source, Statement: p.Statement,
		StarterCode: p.StarterCode, Kind: p.Kind.String(), FuncName: p.FuncName, Match: string(p.Match),
	}
	if strings.TrimSpace(f.StarterCode) == "" {
		f.StarterCode = "" // some collections write a blank for none
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
