package tools

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// Tool is something that a model can call.
type Tool interface {
	// Name is the name by which the model calls it.
	Name() string
	// Schema describes the tool and its arguments in the format of "tools" in OpenAI's API.
	Schema() json.RawMessage
	// Call answers a call with the arguments, a JSON object. A wrong call is answered with a text, too. An error is the
	// context's, or a failure of the machine that wraps a *sandbox.InfraError.
	Call(ctx context.Context, args json.RawMessage) (text string, err error)
}

// Options configure the tools of a conversation. A zero field takes its default.
type Options struct {
	// Judge runs and judges tests. Its programs must run in cells of this machine.
	Judge *reward.Judge
	// Group is the group whose turns in the sandbox the conversation shares; empty is the ID of the problem.
	Group string
	// Tools are the names of the tools: python, run_tests, trace. Empty is all of them.
	Tools []string
	// Text is the most bytes of an answer. Default 4,000, at least 400.
	Text int
	// CallTime bounds the processor time of one call, and TotalTime that of all calls of python. Default 5 s and 60 s.
	CallTime, TotalTime time.Duration
	// Memory is the memory of a program and of the interpreter. Default 512 MiB.
	Memory int64
	// PublicTests is how many of the first tests are public if the problem marks none as public.
	PublicTests int
	// CountHidden has run_tests report also how many of the hidden tests pass, and nothing else of them.
	CountHidden bool
	// Form is the format of a trace: lines (also ""), table or story.
	Form Form
	// Lines is how many lines a traced program may run. Default 100,000.
	Lines int
}

// DefaultText is the default of Options.Text.
const DefaultText = 4000

func (o Options) withDefaults(p *data.Problem) (Options, error) {
	o.Group = cmp.Or(o.Group, p.ID)
	o.Text, o.Lines = cmp.Or(o.Text, DefaultText), cmp.Or(o.Lines, 100_000)
	o.CallTime, o.TotalTime = cmp.Or(o.CallTime, 5*time.Second), cmp.Or(o.TotalTime, time.Minute)
	o.Memory, o.Form = cmp.Or(o.Memory, 512<<20), cmp.Or(o.Form, LinesForm)
	if len(o.Tools) == 0 {
		o.Tools = Names()
	}
	switch {
	case o.Judge == nil:
		return o, badinput.Errorf("tools: Options have no Judge, expected one, such as reward.Open makes")
	case o.Judge.Pool() == nil:
		return o, badinput.Errorf("tools run in cells of this machine, not on a server: type sandbox=local")
	case o.Text < 400:
		return o, badinput.Errorf("tools: an answer of at most %d bytes, expected at least 400", o.Text)
	case o.CallTime < 0 || o.TotalTime < 0 || o.Memory < 0 || o.Lines < 0 || o.PublicTests < 0:
		return o, badinput.Errorf("tools: found a limit below 0, expected one above, or 0 for the default")
	}
	return o, o.Form.check()
}

// Names are the names of all tools.
func Names() []string { return []string{"python", "run_tests", "trace"} }

// Kit is the tools of one conversation. They must be called one at a time.
type Kit struct {
	options Options
	problem *data.Problem
	tools   []Tool
	session *sandbox.Session

	mu    sync.Mutex
	stats Stats
}

// Stats are counts of a kit.
type Stats struct {
	// Calls counts the calls of each tool, Wrong the wrong calls, and Failed those that ended with an error.
	Calls         map[string]int `json:"calls"`
	Wrong, Failed int
	// Lost counts how often the state of the interpreter was lost.
	Lost int
	// Wall is the time from call to answer, including the wait for a slot, and CPU the processor time of programs.
	Wall, CPU time.Duration
}

// Open makes the tools for a conversation about the problem. It starts no process. Close ends what calls have started.
func Open(ctx context.Context, p *data.Problem, o Options) (*Kit, error) {
	precondition.NotNil("tools.Open", "problem", p)
	o, err := o.withDefaults(p)
	if err != nil {
		return nil, err
	}
	k := &Kit{options: o, problem: p, stats: Stats{Calls: map[string]int{}}}
	for _, name := range o.Tools {
		var t answerer
		switch name {
		case "python":
			t = k.newPython()
		case "run_tests":
			t, err = k.newTests(ctx)
		case "trace":
			t, err = k.newTracer(ctx)
		default:
			err = badinput.Errorf("tools: found %q, expected python, run_tests or trace", name)
		}
		if err == nil && slices.ContainsFunc(k.tools, func(other Tool) bool { return other.Name() == name }) {
			err = badinput.Errorf("tools: %s is there twice", name)
		}
		if err != nil {
			return nil, err
		}
		k.tools = append(k.tools, &counted{t, k})
	}
	return k, nil
}

// Tools are the tools, in the order of Options.Tools.
func (k *Kit) Tools() []Tool { return k.tools }

// Call calls the tool of that name. An unknown name is answered with a text.
func (k *Kit) Call(ctx context.Context, name string, args json.RawMessage) (string, error) {
	var names []string
	for _, t := range k.tools {
		if t.Name() == name {
			return t.Call(ctx, args)
		}
		names = append(names, t.Name())
	}
	k.note(func(s *Stats) { s.Wrong++ })
	return fmt.Sprintf("there is no tool %.40q; the tools are %s", name, strings.Join(names, ", ")), nil
}

// Stats are the counts so far.
func (k *Kit) Stats() Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.stats
	s.Calls = make(map[string]int, len(k.stats.Calls))
	for name, n := range k.stats.Calls {
		s.Calls[name] = n
	}
	return s
}

func (k *Kit) note(change func(*Stats)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(&k.stats)
}

// Close ends the interpreter, if there is one.
func (k *Kit) Close() {
	if k.session != nil {
		k.session.Close()
	}
}

// answerer is a tool whose error about a wrong call is a *wrong.
type answerer interface {
	Name() string
	Schema() json.RawMessage
	answer(ctx context.Context, args json.RawMessage) (string, error)
}

// wrong is the error about a wrong call.
type wrong struct{ text string }

func (w *wrong) Error() string { return w.text }

func wrongf(format string, args ...any) error { return &wrong{fmt.Sprintf(format, args...)} }

// counted is the Tool of an answerer: it counts calls, and turns errors about wrong calls into answers.
type counted struct {
	answerer
	kit *Kit
}

// Call answers a call, and counts it.
func (c *counted) Call(ctx context.Context, args json.RawMessage) (string, error) {
	start := time.Now()
	text, err := c.answer(ctx, args)
	var mistake *wrong
	isWrong := errors.As(err, &mistake)
	if isWrong {
		text, err = c.Name()+": "+mistake.text, nil
	}
	c.kit.note(func(s *Stats) {
		s.Calls[c.Name()]++
		s.Wall += time.Since(start)
		if isWrong {
			s.Wrong++
		}
		if err != nil {
			s.Failed++
		}
	})
	if err != nil {
		return "", err
	}
	return fit(steady(text), c.kit.options.Text), nil
}

// decode reads the arguments of a call: one JSON object with the fields of v and no others.
func decode(args json.RawMessage, v any, expected string) error {
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && d.InputOffset() < int64(len(bytes.TrimRight(args, " \t\r\n"))) {
		err = errors.New("there is text after the object")
	}
	if err == io.EOF {
		err = errors.New("there are none")
	}
	if err != nil {
		return wrongf("the arguments cannot be used: %s; expected %s", strings.TrimPrefix(err.Error(), "json: "), expected)
	}
	return nil
}

// checkCode refuses a program that is empty or too large for any tool.
func checkCode(code string) error {
	switch {
	case strings.TrimSpace(code) == "":
		return wrongf("there is no code; expected Python in \"code\"")
	case len(code) > mostCode:
		return wrongf("the code has %d bytes; at most %d are run", len(code), mostCode)
	}
	return nil
}

// mostCode is the largest size of a program in bytes: it must fit into a request.
const mostCode = sandbox.MaxRequest - 16
