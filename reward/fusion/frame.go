package fusion

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed-7879b91d/grpo/reward/internal/program"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// frame is the file in which the wrapper reports. Its first line is the nonce, its second these fields as
// JSON. Then follow, with the sizes given there, standard output, the program's progress followed by the
// value of a call, and the end of standard error.
type frame struct {
	Exit   int     `json:"exit"`
	Signal int     `json:"signal"`
	CPU    float64 `json:"cpu"`
	Memory int64   `json:"memory"`
	Late   int     `json:"late"`
	Sizes  [3]int  `json:"sizes"`

	stdout, value, stderr []byte
}

func parseFrame(text []byte, nonce string) (f frame, err error) {
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	if string(first) != nonce {
		return f, errors.New("the nonce is missing")
	}
	header, body, _ := bytes.Cut(rest, []byte("\n"))
	if err := json.Unmarshal(header, &f); err != nil {
		return f, err
	}
	if !(f.CPU >= 0 && f.CPU < 1e6) {
		return f, fmt.Errorf("%g seconds of processor time", f.CPU)
	}
	for i, part := range []*[]byte{&f.stdout, &f.value, &f.stderr} {
		n := f.Sizes[i]
		if n < 0 || n > len(body) {
			return f, fmt.Errorf("%d bytes where %d were announced", len(body), n)
		}
		*part, body = body[:n:n], body[n:]
	}
	if len(body) > 0 {
		return f, fmt.Errorf("%d bytes after the end", len(body))
	}
	return f, nil
}

// wrapperFailed is the exit code of Python after an uncaught exception.
const wrapperFailed = 1

// result reads the frame. If there is none, the server ended a wrapper that did not finish, the machine
// failed one that ended with an exception, and the program ended any other.
func (resp response) result(name, nonce string, prog sandbox.Program, l sandbox.Limits) (sandbox.Result, error) {
	text, found := resp.Files[name]
	if found {
		f, err := parseFrame(text, nonce)
		if err != nil {
			return sandbox.Result{Status: sandbox.RTE, Stderr: "the program spoiled its frame: " + err.Error()}, nil
		}
		return f.result(prog, l), nil
	}
	switch run := resp.RunResult; {
	case run == nil || run.Status != "Finished" || run.ReturnCode == nil:
		return sandbox.Result{}, fmt.Errorf("%w: the wrapper was not finished in its time", errTransient)
	case *run.ReturnCode == wrapperFailed:
		return sandbox.Result{}, fmt.Errorf("%w: the wrapper failed: %s", errTransient, tail(run.Stderr))
	}
	return sandbox.Result{Status: sandbox.RTE, Stderr: "the program ended its wrapper"}, errEnded
}

func tail(s *string) string {
	if s == nil {
		return ""
	}
	return (*s)[max(0, len(*s)-300):]
}

// The signals that enforce limits of processor time and file size, with the same numbers on every system.
const (
	sigxcpu = 24
	sigxfsz = 25
)

// messageBytes bounds the message about a program that cannot be compiled.
const messageBytes = 4 << 10

func (f frame) result(prog sandbox.Program, l sandbox.Limits) sandbox.Result {
	r := sandbox.Result{
		Stdout: f.stdout, Stderr: string(f.stderr), ExitCode: f.Exit, Signal: f.Signal,
		CPU: time.Duration(f.CPU * float64(time.Second)), PeakMemory: f.Memory,
	}
	value, started := bytes.CutPrefix(f.value, []byte{program.Started})
	if prog.Call != "" && started && json.Valid(value) {
		r.Value = json.RawMessage(value)
	}
	problem, uncompiled := bytes.CutPrefix(f.value, []byte{program.CompileError})
	outOfMemory := f.Exit != 0 && bytes.Contains(f.stderr, []byte("MemoryError"))
	switch {
	case uncompiled:
		r.Status, r.Stderr = sandbox.CE, string(problem[:min(len(problem), messageBytes)])
	case r.CPU > l.CPU || f.Late > 0 || f.Signal == sigxcpu:
		r.Status = sandbox.TLE
	case f.Memory > l.Memory || outOfMemory:
		r.Status = sandbox.MLE
	case int64(len(f.stdout)) > l.Output || int64(len(f.value)) > l.Output || f.Signal == sigxfsz:
		r.Status = sandbox.OLE
	case f.Exit != 0 || f.Signal != 0:
		r.Status = sandbox.RTE
	default:
		r.Status = sandbox.OK
	}
	r.Stdout = r.Stdout[:min(int64(len(r.Stdout)), l.Output)]
	return r
}
