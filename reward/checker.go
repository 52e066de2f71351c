package reward

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// checker asks the checkers of problems, Python functions check(input, output, expected) -> bool. They
// see what is expected, so they run in cells where no submission ever runs. Input, output and expected
// are strings where the program reads standard input, and JSON values where it is called.
type checker struct {
	runner Runner
	limits sandbox.Limits
	failed atomic.Int64
}

// check says whether an answer is right. A checker that fails on an answer accepts nothing; that is
// counted, and the note says how it failed.
func (c *checker) check(ctx context.Context, group, source string, t *data.Test, in sandbox.Input, got sandbox.Result) (right bool,
	note string, err error) {
	args := []any{string(in.Stdin), string(got.Stdout), t.Stdout}
	if t.Kind() == data.Call {
		args = []any{in.Args, got.Value, t.Returns}
	}
	value, note, err := call(ctx, c.runner, group, sandbox.Program{Code: source, Call: "check"}, c.limits, args...)
	if err != nil {
		return false, "", err
	}
	answer, ok := asNumber(value)
	if note == "" && !ok {
		note = fmt.Sprintf("it returned %v, expected True or False", value)
	}
	if note != "" {
		c.failed.Add(1)
		return false, "checker: " + note, nil
	}
	return answer.nearest() != 0, "", nil
}

// call passes arguments to a trusted function and returns its value, as parseJSON reads it. The note
// says how it failed, where it did.
func call(ctx context.Context, r Runner, group string, prog sandbox.Program, l sandbox.Limits, args ...any) (value any, note string,
	err error) {
	in := sandbox.Input{Args: make([]json.RawMessage, len(args))}
	for i, arg := range args {
		if in.Args[i], err = json.Marshal(arg); err != nil {
			return nil, "", err
		}
	}
	var result sandbox.Result
	err = r.Run(ctx, group, prog, []sandbox.Input{in}, l, func(_ int, got sandbox.Result) bool {
		result = got
		return true
	})
	switch {
	case err != nil:
		return nil, "", err
	case result.Status != sandbox.OK:
		return nil, strings.TrimSpace(result.Status.String() + " " + lastLine(result.Stderr)), nil
	case result.Value == nil:
		return nil, strings.TrimSpace("no value " + lastLine(result.Stderr)), nil
	}
	if value, err = parseJSON(result.Value); err != nil {
		return nil, "its value cannot be read: " + err.Error(), nil
	}
	return value, "", nil
}

// lastLine is where Python names an exception.
func lastLine(stderr string) string {
	stderr = strings.TrimSpace(stderr)
	return stderr[strings.LastIndexByte(stderr, '\n')+1:]
}
