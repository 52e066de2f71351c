package reward

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/plainpython"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// TestMain lets more tests run at once than there are processors: they wait for limits to pass.
func TestMain(m *testing.M) {
	plainpython.SetPath()
	os.Unsetenv("SANDBOX_URL") // programs must run on this machine
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	m.Run()
}

// fake is a Runner whose programs are Go functions, found by the source of the program.
type fake struct {
	programs map[string]func(in sandbox.Input) sandbox.Result
	runs     atomic.Int64
	slots    chan struct{} // bounds the concurrent runs if set

	mu     sync.Mutex
	limits []sandbox.Limits
	groups []string
	broken int // how many of the next runs fail
}

func (f *fake) Run(ctx context.Context, group string, prog sandbox.Program, inputs []sandbox.Input, l sandbox.Limits,
	each func(int, sandbox.Result) bool) error {
	f.mu.Lock()
	f.limits, f.groups = append(f.limits, l), append(f.groups, group)
	broken := f.broken > 0
	if broken {
		f.broken--
	}
	f.mu.Unlock()
	if broken {
		return &sandbox.InfraError{Attempts: 3, Err: errors.New("the cell is gone")}
	}
	program := f.programs[prog.Code+prog.Call]
	if program == nil {
		program = func(sandbox.Input) sandbox.Result {
			return sandbox.Result{Status: sandbox.CE, Stderr: "no such program"}
		}
	}
	for i, in := range inputs {
		if f.slots != nil {
			select {
			case f.slots <- struct{}{}:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		f.runs.Add(1)
		r := program(in)
		r.CPU = time.Millisecond
		if f.slots != nil {
			<-f.slots
		}
		if !each(i, r) {
			break
		}
	}
	return nil
}

func prints(text string) sandbox.Result {
	return sandbox.Result{Status: sandbox.OK, Stdout: []byte(text)}
}

func returns(value string) sandbox.Result {
	return sandbox.Result{Status: sandbox.OK, Value: json.RawMessage(value)}
}

func ends(s sandbox.Status) func(sandbox.Input) sandbox.Result {
	return func(sandbox.Input) sandbox.Result { return sandbox.Result{Status: s} }
}

func echo(in sandbox.Input) sandbox.Result { return prints(string(in.Stdin)) }

// fenced is a completion with the program.
func fenced(code string) string { return "So:\n```python\n" + code + "\n```\n" }

// echoProblem asks for a program that prints its input. It has n tests.
func echoProblem(id string, n int) *data.Problem {
	tests := make([]data.Test, n)
	for i := range tests {
		text := strings.Repeat("x", n-i) // the first input is the largest
		tests[i] = data.Test{Stdin: text, Stdout: text}
	}
	p := data.Problem{ID: id, Kind: data.Stdin}.WithTests(tests...)
	return &p
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

func newFake() *fake {
	return &fake{programs: map[string]func(sandbox.Input) sandbox.Result{
		"echo\n":  echo,
		"empty\n": func(sandbox.Input) sandbox.Result { return prints("") },
		"short\n": func(in sandbox.Input) sandbox.Result {
			if len(in.Stdin) > 2 {
				return sandbox.Result{Status: sandbox.TLE}
			}
			return echo(in)
		},
		"wrong on xx\n": func(in sandbox.Input) sandbox.Result {
			if len(in.Stdin) == 2 {
				return prints("?")
			}
			return echo(in)
		},
		"crash\n": ends(sandbox.RTE), "slow\n": ends(sandbox.TLE), "big\n": ends(sandbox.MLE), "loud\n": ends(sandbox.OLE),
		"bad\n": ends(sandbox.CE),
	}}
}

func grade(t *testing.T, g Grader, c Completion) Score {
	t.Helper()
	s, err := g.Grade(t.Context(), c)
	require.NoError(t, err)
	return s
}
