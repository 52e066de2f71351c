package assertion

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

//go:embed values.py
var valuesSource string

//go:embed trusted.py
var trustedSource string

//go:embed program.py
var programSource string

// Test is a piece of Python that raises no exception if the program is right.
type Test struct {
	Source string `json:"source"`
	// Setup runs before Source, in the same process: imports, helpers, data.
	Setup string `json:"setup,omitempty"`
	// Given runs before the program, in the same process: code that the task provides.
	Given string `json:"given,omitempty"`
	// Calls are the program's names that Setup and Source may use. Function is one more, even if Setup redefines the name.
	Calls    []string `json:"calls,omitempty"`
	Function string   `json:"function,omitempty"`
}

// Input encodes a test of an Assert problem.
func Input(p *data.Problem, t *data.Test) sandbox.Input {
	text, err := json.Marshal(Test{Source: t.Assert, Setup: t.Setup, Given: t.Given, Calls: t.Calls, Function: p.FuncName})
	if err != nil {
		panic(err) // a Test has only strings
	}
	return sandbox.Input{Args: []json.RawMessage{text}}
}

// Faulty begins the message about a test that cannot be used with any program.
const Faulty = "the test itself: "

// Opener returns the pool of one of the two sides.
type Opener func(ctx context.Context) (*sandbox.Pool, error)

// Runner runs programs on tests. The only argument of an input is a Test. The value of a result that is OK is true or false; if
// false, Stderr says why.
type Runner struct {
	programs, trusted Opener
}

// New makes a runner. Its two pools, one for programs and one in which no program ever runs, must have the options that Cells returns.
func New(programs, trusted Opener) *Runner { return &Runner{programs, trusted} }

// tries is how often a test is started if the machine fails.
const tries = 3

// Run runs the program on tests in order. The error is the context's, or a *sandbox.InfraError.
func (r *Runner) Run(ctx context.Context, group string, prog sandbox.Program, inputs []sandbox.Input, l sandbox.Limits,
	each func(i int, r sandbox.Result) (more bool)) error {
	// Every dialogue takes a place of the trusted pool first and then one of the other, so they cannot deadlock.
	trusted, err := r.trusted(ctx)
	if err != nil {
		return err
	}
	programs, err := r.programs(ctx)
	if err != nil {
		return err
	}
	for i, in := range inputs {
		var t Test
		if len(in.Args) != 1 || json.Unmarshal(in.Args[0], &t) != nil {
			return fmt.Errorf("assertion: input %d is no test", i)
		}
		var result sandbox.Result
		for try := 1; ; try++ {
			d := newDialogue(group, prog.Code, t, programs, trusted, l)
			result, err = d.run(ctx)
			d.close()
			var broken *sandbox.InfraError
			if err == nil || !errors.As(err, &broken) || ctx.Err() != nil {
				break
			}
			if try == tries {
				return err
			}
		}
		if err != nil {
			return err
		}
		if !each(i, result) {
			return nil
		}
	}
	return nil
}

// mostProgram is the largest size of a program in bytes.
const mostProgram = 4 << 20

// dialogue is one test of one program.
type dialogue struct {
	judge, program *sandbox.Session
	test           Test
	size           int // of the program
	limits         sandbox.Limits

	loaded bool
	result sandbox.Result
}

// The trusted side computes with values that the program chose, so it has limits, too.
const (
	judgeTime = 10 * time.Second
	// patience bounds the wall time of all calls together. It ends programs that sleep in each of many calls; it is long, because on a
	// busy machine honest programs take long, too.
	patience = 5 * time.Minute
)

func newDialogue(group, code string, t Test, programs, trusted *sandbox.Pool, l sandbox.Limits) *dialogue {
	if l.CPU == 0 {
		l.CPU = 6 * time.Second
	}
	if l.Wall == 0 {
		l.Wall = l.CPU + time.Second
	}
	judge := sandbox.Limits{CPU: judgeTime, Memory: 1 << 30}
	return &dialogue{
		judge: trusted.NewSession(group, driverProgram(), sandbox.SessionLimits{Call: judge, Total: 2 * judgeTime}),
		program: programs.NewSession(group, driverProgram(code, t.Given),
			sandbox.SessionLimits{Call: l, Total: l.CPU, Keep: 2 << 10}),
		test: t, size: len(code), limits: l,
	}
}

// driverProgram is a program that starts the driver which the cells of a side have preloaded. The driver finds the texts in TEXTS.
func driverProgram(texts ...string) sandbox.Program {
	quoted, err := json.Marshal(append([]string{}, texts...)) // a JSON array of strings is a valid Python list
	if err != nil {
		panic(err)
	}
	return sandbox.Program{Code: "TEXTS = " + string(quoted) + "\ndef start(): serve_assertions(globals())", Call: "start"}
}

// Cells are the pool options of both sides: each preloads its driver, with its own copy of the built-in names, so that a program that
// replaces built-ins does not affect the driver that calls it.
func Cells(o sandbox.Options) (programs, trusted sandbox.Options) {
	loaded := func(source string) sandbox.Options {
		quoted, err := json.Marshal(valuesSource + "\n\n" + source) // a JSON string is a valid Python literal
		if err != nil {
			panic(err)
		}
		o.Preload = "__driver = {'__name__': 'driver', '__builtins__': dict(vars(__builtins__))}\n" +
			"exec(compile(" + string(quoted) + ", 'driver.py', 'exec', dont_inherit=True), __driver)\nserve_assertions = __driver['serve']\n"
		return o
	}
	return loaded(programSource), loaded(trustedSource)
}

func (d *dialogue) close() {
	d.program.Close()
	d.judge.Close()
}

// run passes messages between the two sides until the trusted side has a verdict.
func (d *dialogue) run(ctx context.Context) (sandbox.Result, error) {
	if d.size > mostProgram {
		d.result.Status = sandbox.CE
		d.result.Stderr = fmt.Sprintf("the program has %d bytes; at most %d are compiled", d.size, mostProgram)
		return d.result, nil
	}
	request, err := json.Marshal(d.test)
	if err != nil {
		return d.result, err
	}
	for {
		r, err := send(ctx, d.judge, request)
		if err != nil {
			return d.result, err
		}
		if r.Status != sandbox.OK || len(r.Answer) == 0 {
			return d.undecided(r), nil
		}
		said := r.Answer[1:]
		switch r.Answer[0] {
		case 'P':
			if err := d.load(ctx); err != nil || d.result.Status != 0 { // a test that calls nothing has not loaded it yet
				return d.result, err
			}
			return d.decided(true, ""), nil
		case 'F':
			return d.decided(false, string(said)), nil
		case 'E':
			return d.decided(false, Faulty+string(said)), nil
		case 'X':
			d.result.Status, d.result.Stderr, d.result.ExitCode = sandbox.RTE, string(said), 1
			return d.result, nil
		case 'Q':
			if request, err = d.ask(ctx, said); err != nil || d.result.Status != 0 {
				return d.result, err
			}
		default:
			return d.result, fmt.Errorf("assertion: the trusted side said %.20q", r.Answer)
		}
	}
}

// decided is the result of a test with a verdict.
func (d *dialogue) decided(right bool, why string) sandbox.Result {
	d.result.Status, d.result.Stderr = sandbox.OK, why
	d.result.Value = json.RawMessage(fmt.Sprint(right))
	return d.result
}

// undecided is the result of a test whose assertions exceeded a limit or crashed. What the program returned brought that about, so it
// counts against the program.
func (d *dialogue) undecided(r sandbox.Reply) sandbox.Result {
	d.result.Status = r.Status
	d.result.Stderr = "the assertions could not be worked out with what the program returned"
	if r.Status == sandbox.RTE || r.Status == sandbox.OK {
		return d.decided(false, d.result.Stderr)
	}
	return d.result
}

// load has the module of the program executed, once.
func (d *dialogue) load(ctx context.Context) error {
	if d.loaded {
		return nil
	}
	d.loaded = true
	answer, err := d.tell(ctx, []byte{'R'})
	if err != nil || d.result.Status != 0 {
		return err
	}
	switch answer[0] {
	case 'V':
	case 'C':
		d.result.Status, d.result.Stderr = sandbox.CE, string(answer[1:])
	default:
		d.result.Status, d.result.Stderr, d.result.ExitCode = sandbox.RTE, failureText(answer), 1
	}
	return nil
}

// ask passes a question on to the program and returns its answer. If there is none, d.result has a status.
func (d *dialogue) ask(ctx context.Context, question []byte) ([]byte, error) {
	if err := d.load(ctx); err != nil || d.result.Status != 0 {
		return nil, err
	}
	return d.tell(ctx, append([]byte{'Q'}, question...))
}

// tell sends a message to the program's side and returns its answer, which is not trusted. If that is nil, d.result has a status.
func (d *dialogue) tell(ctx context.Context, message []byte) ([]byte, error) {
	r, err := send(ctx, d.program, message)
	if err != nil {
		return nil, err
	}
	d.result.CPU += r.CPU
	d.result.Wall += r.Wall
	switch {
	case r.Status == sandbox.OK && d.result.Wall > 10*d.limits.CPU+patience:
		d.result.Status = sandbox.TLE
	case r.Status == sandbox.OK && len(r.Answer) > 0:
		return r.Answer, nil
	case r.Status == sandbox.OK:
		d.result.Status = sandbox.RTE
	default:
		d.result.Status, d.result.ExitCode, d.result.Signal = r.Status, r.ExitCode, r.Signal
	}
	d.result.Stderr = strings.TrimSpace(string(r.Stderr.Head) + string(r.Stderr.Tail))
	if d.result.Stderr == "" && d.result.Status == sandbox.RTE {
		d.result.Stderr = fmt.Sprintf("the program ended itself with exit code %d while it was asked", r.ExitCode)
	}
	return nil, nil
}

// failureText is the readable form of an answer in which the program's side reports a failure.
func failureText(answer []byte) string {
	var failure [2]string
	if json.Unmarshal(answer[1:], &failure) != nil {
		return fmt.Sprintf("%.200q", answer)
	}
	return strings.TrimSpace(failure[0] + ": " + failure[1])
}

// send sends a message in as many parts as it needs, and returns the answer to the last. The other answers only acknowledge their part.
func send(ctx context.Context, s *sandbox.Session, message []byte) (r sandbox.Reply, err error) {
	const most = sandbox.MaxRequest - 1
	var cpu, wall time.Duration
	for {
		part, mark := message, byte('L')
		if len(part) > most {
			part, mark = part[:most], 'M'
		}
		r, err = s.Call(ctx, append([]byte{mark}, part...))
		r.CPU, r.Wall = r.CPU+cpu, r.Wall+wall
		if message = message[len(part):]; err != nil || r.Status != sandbox.OK || mark == 'L' {
			return r, err
		}
		cpu, wall = r.CPU, r.Wall
	}
}
