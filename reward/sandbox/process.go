package sandbox

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/seed-7879b91d/grpo/reward/internal/program"
	"github.com/seed-7879b91d/grpo/reward/sandbox/internal/proc"
)

//go:embed process.py
var processSource string

// processes is the lowest rung: a new interpreter for every test, as an ordinary process of our user. It
// is for machines that allow no isolation, and protects nothing. Only the address space bounds memory, so
// there is no MLE: a program that allocates too much ends with RTE.
type processes struct {
	py        *interpreter
	source    string
	dir       string // holds the files of tests
	removeDir func() // removes dir if it was made for this pool
}

func newProcesses(py *interpreter, preload, dir string, removeDir func()) (workerFactory, error) {
	config, err := json.Marshal(map[string]any{"preload": preload, "path": py.Path})
	if err != nil {
		return nil, err
	}
	quoted, err := json.Marshal(string(config)) // a JSON string is a valid Python literal
	if err != nil {
		return nil, err
	}
	source := fmt.Sprintf("import json; CONFIG = json.loads(%s)\n%s%s", quoted, program.Source, processSource)
	return &processes{py, source, dir, removeDir}, nil
}

func (k *processes) open(context.Context, int) (worker, error) { return (*process)(k), nil }
func (k *processes) close()                                    { k.removeDir() }

// process runs one test at a time, each in a process of its own.
type process processes

func (p *process) usable() bool { return true }
func (p *process) close()       {}

func (p *process) run(ctx context.Context, prog Program, in Input, l Limits) (r Result, err error) {
	files, err := newProcessFiles(p.dir, prog, in)
	if err != nil {
		return r, err
	}
	defer files.remove()
	seconds := kernelSeconds(l.CPU)
	cmd := exec.Command(p.py.Exe, slices.Concat(programFlags, []string{"-c", p.source,
		files.path("request"), files.path("result"), files.path("progress"),
		strconv.FormatInt(seconds, 10), strconv.FormatInt(l.Output+1, 10), strconv.FormatInt(addressSpace(l), 10)})...)
	cmd.Dir = files.path("scratch")
	cmd.Env = slices.Concat(program.Environment, []string{"HOME=" + cmd.Dir, "TMPDIR=" + cmd.Dir}, platformEnv())
	var stderr tailWriter
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files.open["stdin"], files.open["stdout"], &stderr
	cmd.WaitDelay = 100 * time.Millisecond // a child of the program may hold the pipe open
	killGroup := ownGroup(cmd)
	runtime.LockOSThread() // the kernel kills the process when the thread that started it ends
	defer runtime.UnlockOSThread()

	start := time.Now()
	if err := cmd.Start(); err != nil {
		return r, err
	}
	stopped, err := followProcess(ctx, cmd, killGroup, files.open["stdout"], l)
	killGroup()
	if err != nil {
		return r, err
	}
	r.Wall, r.CPU = time.Since(start), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	r.ExitCode, r.Signal = exitStatus(cmd.ProcessState)
	r.Stderr = stderr.tail.String()
	return r, files.result(&r, stopped, prog, l)
}

// pollInterval is how often the processor time and the output of a process are checked.
const pollInterval = 20 * time.Millisecond

// followProcess waits for the end of a test, and kills it when it takes too long or prints too much.
func followProcess(ctx context.Context, cmd *exec.Cmd, kill func() error, stdout *os.File, l Limits) (stopped Status, err error) {
	start, gone := time.Now(), make(chan struct{})
	go func() {
		cmd.Wait() // how it ended is in ProcessState
		close(gone)
	}()
	for wall := start.Add(l.Wall); stopped == 0 && err == nil; {
		select {
		case <-gone:
			return 0, nil
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(pollInterval):
			if info, err := stdout.Stat(); err == nil && info.Size() > l.Output {
				stopped = OLE
			} else if proc.CPU(cmd.Process.Pid) > l.CPU {
				stopped = TLE
			}
		}
		if now := time.Now(); now.After(wall) && err == nil {
			var left time.Duration
			if left, err = l.sleepLeft(now.Sub(start), proc.ThreadsOf(cmd.Process.Pid)); left <= 0 {
				stopped = TLE
			}
			wall = now.Add(left)
		}
	}
	kill()
	<-gone
	return stopped, err
}

// processFiles are the files of a test, in a directory of their own. We read them through the open
// descriptors, because the program may have replaced what the paths name.
type processFiles struct {
	dir  string
	open map[string]*os.File
}

func newProcessFiles(dir string, prog Program, in Input) (f *processFiles, err error) {
	f = &processFiles{open: map[string]*os.File{}}
	if f.dir, err = os.MkdirTemp(dir, "grpo-test-"); err != nil {
		return nil, err
	}
	err = os.Mkdir(f.path("scratch"), 0o700)
	for name, content := range map[string][]byte{
		"request": program.Request(prog.Code, prog.Call, in.Args), "stdin": in.Stdin, "stdout": nil, "result": nil, "progress": nil,
	} {
		if err == nil {
			f.open[name], err = os.OpenFile(f.path(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		}
		if err == nil {
			_, err = f.open[name].WriteAt(content, 0)
		}
	}
	if err != nil {
		f.remove()
		return nil, err
	}
	return f, nil
}

func (f *processFiles) path(name string) string { return filepath.Join(f.dir, name) }

// read reads at most limit bytes, and returns the size of the whole file.
func (f *processFiles) read(name string, limit int64) (content []byte, size int64, err error) {
	info, err := f.open[name].Stat()
	if err != nil {
		return nil, 0, err
	}
	content, err = io.ReadAll(io.NewSectionReader(f.open[name], 0, min(info.Size(), limit)))
	return content, info.Size(), err
}

// result fills in the status, the output and the value of a test that has ended.
func (f *processFiles) result(r *Result, stopped Status, prog Program, l Limits) error {
	progress, _, err := f.read("progress", 2*stderrTail)
	if err != nil {
		return err
	}
	if len(progress) == 0 && stopped == TLE && r.CPU <= l.CPU {
		return fmt.Errorf("the interpreter was not ready after %v", r.Wall) // a program that is slow to compile uses up its CPU
	}
	var size int64
	if r.Stdout, size, err = f.read("stdout", l.Output); err != nil {
		return err
	}
	switch {
	case len(progress) == 0 || progress[0] == program.CompileError:
		r.Status, r.Stderr = CE, string(progress[min(1, len(progress)):])
	case size > l.Output:
		r.Status = OLE
	case r.CPU > l.CPU || stopped == TLE:
		r.Status = TLE
	case r.ExitCode != 0 || r.Signal != 0:
		r.Status = RTE
	default:
		r.Status = OK
	}
	if prog.Call != "" && (r.Status == OK || prog.Record) {
		content, _, err := f.read("result", l.Output)
		r.take(prog, content)
		return err
	}
	return nil
}

func (f *processFiles) remove() {
	for _, file := range f.open {
		file.Close() // of a nil file, if opening it failed: does nothing
	}
	os.RemoveAll(f.dir)
}

// tailWriter keeps the end of what is written.
type tailWriter struct{ tail tail }

func (w *tailWriter) Write(b []byte) (int, error) {
	w.tail.add(b)
	return len(b), nil
}
