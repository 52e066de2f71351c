package sandbox

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/seed-7879b91d/grpo/reward/internal/program"
)

//go:embed process.py
var processSource string

// processes is the lowest rung: a new interpreter for every test, as an ordinary process of the user
// who runs this. It exists for machines that can do no better, and keeps nothing from anybody. Memory is
// bounded by address space alone, so there is no MLE: a program that asks for more ends with RTE.
type processes struct {
	py     *interpreter
	source string
}

func newProcesses(py *interpreter, preload string) (kit, error) {
	config, err := json.Marshal(map[string]string{"preload": preload})
	if err != nil {
		return nil, err
	}
	quoted, err := json.Marshal(string(config)) // a JSON string is a Python string
	if err != nil {
		return nil, err
	}
	return &processes{py, fmt.Sprintf("import json; CONFIG = json.loads(%s)\n%s%s", quoted, program.Source, processSource)}, nil
}

func (k *processes) open(context.Context, int) (worker, error) { return (*process)(k), nil }
func (k *processes) close()                                    {}

// process runs one test after the other.
type process processes

func (p *process) usable() bool { return true }
func (p *process) close()       {}

func (p *process) run(ctx context.Context, prog Program, in Input, l Limits) (r Result, err error) {
	dir, err := os.MkdirTemp("", "grpo-sandbox-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	path := func(name string) string { return filepath.Join(dir, name) }
	scratch := path("scratch")
	if err := os.Mkdir(scratch, 0o700); err != nil {
		return r, err
	}
	for name, content := range map[string][]byte{
		"request": program.Request(prog.Code, prog.Call, in.Args), "stdin": in.Stdin, "result": nil, "progress": nil,
	} {
		if err := os.WriteFile(path(name), content, 0o600); err != nil {
			return r, err
		}
	}
	stdin, err := os.Open(path("stdin"))
	if err != nil {
		return r, err
	}
	defer stdin.Close()

	wall, stop := context.WithTimeout(ctx, l.Wall)
	defer stop()
	seconds := int64((l.CPU+time.Second-1)/time.Second) + 1
	args := slices.Concat(pythonFlags, []string{"-c", p.source, path("request"), path("result"), path("progress"),
		strconv.FormatInt(seconds, 10), strconv.FormatInt(l.Output+1, 10), strconv.FormatInt(addressSpace(l), 10)})
	cmd := exec.CommandContext(wall, p.py.Exe, args...)
	cmd.Dir, cmd.Stdin = scratch, stdin
	cmd.Env = slices.Concat(program.Environment, []string{"HOME=" + scratch, "TMPDIR=" + scratch}, platformEnv())
	killGroup := ownGroup(cmd)
	out := &capped{limit: int(l.Output), full: func() { killGroup() }}
	var stderr tailWriter
	cmd.Stdout, cmd.Stderr = out, &stderr
	cmd.WaitDelay = 100 * time.Millisecond // nobody waits for a pipe that a child of the program still holds
	slept := false
	cmd.Cancel = func() error {
		slept = true
		return killGroup()
	}

	start := time.Now()
	err = cmd.Run()
	r.Wall = time.Since(start)
	killGroup()
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	if cmd.ProcessState == nil {
		return r, err
	}
	r.Stdout, r.Stderr = out.kept.Bytes(), stderr.tail.String()
	r.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.ExitCode, r.Signal = ended(cmd.ProcessState)
	progress, err := os.ReadFile(path("progress"))
	if err != nil {
		return r, err
	}
	switch {
	case len(progress) == 0 || progress[0] == program.CompileError:
		r.Status, r.Stderr = CE, string(progress[min(1, len(progress)):])
	case out.over:
		r.Status = OLE
	case r.CPU > l.CPU || slept:
		r.Status = TLE
	case r.ExitCode != 0 || r.Signal != 0:
		r.Status = RTE
	default:
		r.Status = OK
	}
	if prog.Call != "" && r.Status == OK {
		content, err := os.ReadFile(path("result"))
		if err != nil {
			return r, err
		}
		r.Value = checkValue(content)
	}
	return r, nil
}

// capped keeps what is written up to a limit, and ends the writer there.
type capped struct {
	kept  bytes.Buffer
	limit int
	over  bool
	full  func()
}

func (c *capped) Write(b []byte) (int, error) {
	room := c.limit - c.kept.Len()
	if len(b) <= room {
		return c.kept.Write(b)
	}
	c.kept.Write(b[:room])
	c.over = true
	c.full()
	return room, io.ErrShortWrite
}

// tailWriter keeps the end of what is written.
type tailWriter struct{ tail tail }

func (w *tailWriter) Write(b []byte) (int, error) {
	w.tail.add(b)
	return len(b), nil
}
