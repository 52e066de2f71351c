package reward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// checker calls the checkers of problems, Python functions check(input, output, expected) -> bool. They
// see expected outputs, so they run in cells where no submission ever runs. Input, output and expected
// are strings for a program that reads standard input, and JSON values for one that is called.
type checker struct {
	runner Runner
	limits sandbox.Limits
	failed atomic.Int64
	recent failures
}

// failures counts failures since the last warning of them.
type failures struct {
	mu    sync.Mutex
	n     int64
	first string // note of the first
}

func (f *failures) add(note string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n++; f.n == 1 {
		f.first = note
	}
}

// take returns the count and the first note, and starts again from 0.
func (f *failures) take() (n int64, first string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, f.n = f.n, 0
	return n, f.first
}

// checkerNote begins the note on an answer that a checker failed on.
const checkerNote = "checker: "

// CheckerFailed reports whether a checker failed on an answer, which then counts as wrong whether it is or not.
func (s Score) CheckerFailed() bool { return strings.HasPrefix(s.Note, checkerNote) }

// check reports whether an answer is right. If the checker fails, the answer is not accepted, the failure
// is counted, and the note says how it failed.
func (c *checker) check(ctx context.Context, group, source string, t *data.Test, in sandbox.Input, got sandbox.Result) (right bool,
	note string, err error) {
	args := []any{string(in.Stdin), string(got.Stdout), t.Stdout}
	if t.Kind() == data.Call {
		args = []any{in.Args, got.Value, t.Returns}
	}
	a, err := call(ctx, c.runner, group, sandbox.Program{Code: source, Call: "check"}, c.limits, args...)
	if err != nil {
		return false, "", err
	}
	verdict, ok := asNumber(a.value)
	if a.note == "" && !ok {
		a.note = fmt.Sprintf("it returned %v, expected True or False", a.value)
	}
	if a.note != "" {
		c.fail(a.note)
		return false, checkerNote + a.note, nil
	}
	return verdict.nearest() != 0, "", nil
}

func (c *checker) fail(note string) {
	c.failed.Add(1)
	c.recent.add(note)
}

// warnings say on how many answers checkers failed since the last call.
func (c *checker) warnings() (w []string) {
	if n, first := c.recent.take(); n > 0 {
		w = []string{fmt.Sprintf("checkers failed on %d answers, which count as wrong; the first time: %s", n, first)}
	}
	return w
}

// reply is the result of calling a trusted function: its value, as parseJSON reads it, or a note that says how it
// failed.
type reply struct {
	value any
	note  string
	sandbox.Result
}

// call calls a trusted function.
func call(ctx context.Context, r Runner, group string, prog sandbox.Program, l sandbox.Limits, args ...any) (a reply, err error) {
	if r == nil { // customs are nil without a reward file, which then is not called
		return a, errors.New("a problem has a checker, and the judge no runner for it; give reward.NewJudge a trusted one")
	}
	in := sandbox.Input{Args: make([]json.RawMessage, len(args))}
	for i, arg := range args {
		if in.Args[i], err = json.Marshal(arg); err != nil {
			return a, err
		}
	}
	err = r.Run(ctx, group, prog, []sandbox.Input{in}, l, func(_ int, got sandbox.Result) bool {
		a.Result = got
		return true
	})
	if err != nil {
		return a, err
	}
	switch {
	case a.Status != sandbox.OK:
		a.note = strings.TrimSpace(a.Status.String() + " " + exception(a.Stderr))
	case a.Value == nil:
		if _, why, found := strings.Cut(a.Stderr, lostValue); found { // what warnings say at the end stands behind it
			a.note = "no value " + lostValue + strings.TrimSpace(firstLine(why))
			break
		}
		a.note = strings.TrimSpace("no value " + exception(a.Stderr))
	default:
		if a.value, err = parseJSON(a.Value); err != nil {
			a.note = "its value cannot be read: " + err.Error()
		}
	}
	return a, nil
}

// lostValue begins the message of the runner about a value that JSON cannot represent.
const lostValue = "the returned value is lost: "

// exception is the line in which a traceback names the exception; its message may go on behind it. Without one it is the last line.
func exception(stderr string) string {
	if at := strings.LastIndex(stderr, "Traceback (most recent call last):\n"); at >= 0 {
		_, frames, _ := strings.Cut(stderr[at:], "\n")
		for frames != "" {
			var line string
			if line, frames, _ = strings.Cut(frames, "\n"); line != "" && line[0] != ' ' {
				if strings.HasSuffix(line, ": ") { // the message begins on a line of its own
					line += firstLine(strings.TrimSpace(frames))
				}
				return line
			}
		}
	}
	stderr = strings.TrimSpace(stderr)
	return stderr[strings.LastIndexByte(stderr, '\n')+1:]
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
