package tools

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

var (
	//go:embed trace_values.py
	traceValues string
	//go:embed trace.py
	traceSteps string

	traceSource = traceValues + "\n\n" + traceSteps
)

// recordBytes is the largest size of a program's record, and of its output.
const recordBytes = 8 << 20

// Traced is a program to trace, and its input.
type Traced struct {
	Code string
	// Call is the function to call with Args; if empty, the program reads Stdin.
	Call  string
	Args  []json.RawMessage
	Stdin string
	// Lines is how many lines it may run.
	Lines int
}

// Follow runs a program and traces it line by line. The error is the context's, or a failure of the machine.
func Follow(ctx context.Context, pool *sandbox.Pool, group string, p Traced, l sandbox.Limits) (*Trace, sandbox.Result, error) {
	if p.Args == nil {
		p.Args = []json.RawMessage{}
	}
	var args []json.RawMessage
	for _, v := range []any{p.Code, p.Call, p.Args, map[string]int{"bytes": recordBytes, "lines": p.Lines}} {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, sandbox.Result{}, err
		}
		args = append(args, text)
	}
	l.Output = recordBytes
	var r sandbox.Result
	err := pool.Run(ctx, group, sandbox.Program{Code: driver(traceSource), Call: "serve", Record: true},
		[]sandbox.Input{{Stdin: []byte(p.Stdin), Args: args}}, l, func(_ int, got sandbox.Result) bool {
			r = got
			return true
		})
	if err != nil {
		return nil, r, err
	}
	return readTrace(p.Code, r), r, nil
}

// tracer is the tool trace.
type tracer struct {
	kit    *Kit
	public []data.Test
}

func (k *Kit) newTracer(ctx context.Context) (*tracer, error) {
	public, _, err := k.split(ctx)
	return &tracer{k, public}, err
}

func (t *tracer) Name() string { return "trace" }

func (t *tracer) Schema() json.RawMessage {
	given := `"input":{"type":"string","description":"what the program reads from standard input"}`
	if t.kit.problem.Kind == data.Call {
		given = `"args":{"type":"array","items":{},"description":"the arguments that ` + t.kit.problem.FuncName + ` is called with"}`
	}
	return json.RawMessage(`{"type":"function","function":{"name":"trace","description":"Runs a program and shows line by line what it ` +
		`does: which line ran, which variables it changed, calls, returned values, exceptions.","parameters":{"type":"object","properties":{` +
		`"code":{"type":"string","description":"the whole program"},` + given + `,"test":{"type":"integer",` +
		`"description":"the number of a public test, from 1, to take the input from"}},"required":["code"],"additionalProperties":false}}}`)
}

func (t *tracer) answer(ctx context.Context, raw json.RawMessage) (string, error) {
	p, err := t.read(raw)
	if err != nil {
		return "", err
	}
	o := t.kit.options
	trace, r, err := Follow(ctx, o.Judge.Pool(), o.Group, p, sandbox.Limits{CPU: o.CallTime, Memory: o.Memory})
	if err != nil {
		return "", err
	}
	t.kit.note(func(s *Stats) { s.CPU += r.CPU })
	return trace.Text(o.Form, o.Text), nil
}

// read makes a Traced of the arguments of a call.
func (t *tracer) read(raw json.RawMessage) (p Traced, err error) {
	var args struct {
		Code  string            `json:"code"`
		Input *string           `json:"input"`
		Args  []json.RawMessage `json:"args"`
		Test  int               `json:"test"`
	}
	problem := t.kit.problem
	expected := `{"code": "…", "input": "…"} or {"code": "…", "test": 1}`
	if problem.Kind == data.Call {
		expected = `{"code": "…", "args": […]} or {"code": "…", "test": 1}`
	}
	if err := decode(raw, &args, expected); err != nil {
		return p, err
	}
	if err := checkCode(args.Code); err != nil {
		return p, err
	}
	p = Traced{Code: args.Code, Lines: t.kit.options.Lines}
	switch isCall := problem.Kind == data.Call; {
	case args.Test != 0 && (args.Input != nil || args.Args != nil):
		err = wrongf(`"test" names an input, and another is there; expected one of the two`)
	case args.Test < 0 || args.Test > len(t.public):
		err = wrongf("there is no public test %d; there are %d of them, from 1", args.Test, len(t.public))
	case args.Test > 0 && problem.Kind == data.Assert:
		p.Code = asserted(args.Code, &t.public[args.Test-1])
	case args.Test > 0 && isCall:
		p.Call, p.Args = problem.FuncName, t.public[args.Test-1].Args
	case args.Test > 0:
		p.Stdin = t.public[args.Test-1].Stdin
	case isCall && args.Input != nil:
		err = wrongf(`%s takes arguments, not an input; expected "args": […]`, problem.FuncName)
	case !isCall && args.Args != nil:
		err = wrongf(`the program reads standard input, and takes no arguments; expected "input": "…"`)
	case args.Args != nil:
		p.Call, p.Args = problem.FuncName, args.Args
	case args.Input != nil:
		p.Stdin = *args.Input
	}
	return p, err
}

// asserted is a program preceded by the code that the task provides and followed by an assertion with its setup.
func asserted(code string, test *data.Test) string {
	parts := []string{test.Given, code, test.Setup, test.Assert}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "\n")
}

// ended says how a traced program ended: as its record has it, or else as the sandbox saw it.
func ended(why, text string, lines int, r sandbox.Result) string {
	switch why {
	case "end":
		return "The program ended."
	case "exit":
		return fmt.Sprintf("The program left by sys.exit(%s).", strings.TrimPrefix(text, "None"))
	case "exception":
		return "The program ended with " + text
	case "syntax":
		return "The program cannot be compiled: " + text
	case "lines":
		return fmt.Sprintf("The program was stopped after %d lines.", lines)
	case "work", "full":
		return fmt.Sprintf("The program was stopped after %d lines: it changes more than can be followed.", lines)
	}
	switch r.Status {
	case sandbox.TLE:
		return "The program was stopped: it took too long."
	case sandbox.MLE:
		return "The program was stopped: it took too much memory."
	case sandbox.OLE:
		return "The program was stopped: it printed too much."
	}
	if r.Signal != 0 {
		return fmt.Sprintf("The program died of signal %d.", r.Signal)
	}
	return fmt.Sprintf("The program ended itself with exit code %d.", r.ExitCode)
}
