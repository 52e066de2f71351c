package tools

import (
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

//go:embed boot.py
var bootSource string

//go:embed interpreter.py
var interpreterSource string

// driver is the source of one of our own programs, which boot.py starts.
func driver(source string) string {
	quoted, err := json.Marshal(source) // a JSON string is a valid Python literal
	if err != nil {
		panic(err)
	}
	return "SOURCE = " + string(quoted) + "\n" + bootSource
}

// python is an interpreter that keeps its state from call to call.
type python struct {
	kit   *Kit
	calls uint32
}

func (k *Kit) newPython() *python {
	k.session = k.options.Judge.Pool().NewSession(k.options.Group, sandbox.Program{Code: driver(interpreterSource), Call: "serve"},
		sandbox.SessionLimits{
			Call:  sandbox.Limits{CPU: k.options.CallTime, Memory: k.options.Memory},
			Total: k.options.TotalTime, Keep: k.options.Text,
		})
	return &python{kit: k}
}

func (p *python) Name() string { return "python" }

func (p *python) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"function","function":{"name":"python","description":"Runs Python and answers with what it printed, ` +
		`the value of the last expression, and the traceback of an exception. Variables, functions and imports are kept for the next call. ` +
		`There is no network, and no input.","parameters":{"type":"object","properties":{"code":{"type":"string",` +
		`"description":"Python source"}},"required":["code"],"additionalProperties":false}}}`)
}

func (p *python) answer(ctx context.Context, raw json.RawMessage) (string, error) {
	var args struct {
		Code string `json:"code"`
	}
	if err := decode(raw, &args, `{"code": "…"}`); err != nil {
		return "", err
	}
	if err := checkCode(args.Code); err != nil {
		return "", err
	}
	p.calls++
	request := append(binary.LittleEndian.AppendUint32(nil, p.calls), args.Code...)
	r, err := p.kit.session.Call(ctx, request)
	if err != nil {
		return "", err
	}
	p.kit.note(func(s *Stats) {
		s.CPU += r.CPU
		if r.Status != sandbox.OK && r.Wall > 0 {
			s.Lost++
		}
	})
	return p.text(r), nil
}

// text is the answer to the model: the output and then its end, which has the value or what went wrong. The output is cut to the room
// that the end leaves.
func (p *python) text(r sandbox.Reply) string {
	end := ""
	switch {
	case r.Status != sandbox.OK:
		end = p.stopped(r)
	case len(r.Answer) > 1:
		end = string(r.Answer[1:])
	}
	end = fit(steady(end), p.kit.options.Text/2)
	left := p.kit.options.Text - len(end) - 2
	complaints := excerpt(r.Stderr, left/2)
	text := block(excerpt(r.Stdout, left-len(complaints))) + block(complaints) + end
	if text == "" {
		return "(no output)"
	}
	return strings.TrimSuffix(text, "\n")
}

// stopped says why the process gave no answer.
func (p *python) stopped(r sandbox.Reply) string {
	const lost = "; all variables are lost, and the next call begins anew"
	switch {
	case r.Spent:
		return fmt.Sprintf("[python has used its %v of processor time, and cannot be called any more]", p.kit.options.TotalTime)
	case r.Status == sandbox.TLE:
		return fmt.Sprintf("[stopped: a call may use %v of processor time, and may not sleep for long%s]", p.kit.options.CallTime, lost)
	case r.Status == sandbox.MLE:
		return fmt.Sprintf("[stopped: there are %d MiB of memory%s]", p.kit.options.Memory>>20, lost)
	case r.Signal != 0:
		return fmt.Sprintf("[the interpreter died of signal %d%s]", r.Signal, lost)
	case r.ExitCode != 0:
		return fmt.Sprintf("[the interpreter ended with exit code %d%s]", r.ExitCode, lost)
	}
	return "[the interpreter ended without an answer" + lost + "]"
}
