package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/plainpython"
)

// asCommand makes the test binary run the command, for tests that need a process to kill.
const asCommand = "GRPO_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	plainpython.SetPath()
	os.Setenv("SANDBOX_MAX_CONCURRENCY", "1") // each cell takes a twentieth of a second to start; runs that need several ask for them
	debug.SetGCPercent(400)                   // hundreds of small trainers are opened and closed
	os.Exit(m.Run())
}

// process is a run in a process of its own.
type process struct {
	*exec.Cmd
	errs string // the file with its standard error
}

// start starts a run in the directory "run" of a folder.
func start(t *testing.T, folder string, words ...string) *process {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return startCommand(t, folder, exec.Command(exe, append(words, "run_dir=run")...))
}

// startCommand starts a command line that runs the test binary.
func startCommand(t *testing.T, folder string, cmd *exec.Cmd) *process {
	t.Helper()
	errs, err := os.CreateTemp(t.TempDir(), "stderr")
	require.NoError(t, err)
	defer errs.Close()
	p := &process{Cmd: cmd, errs: errs.Name()}
	p.Dir, p.Stderr = folder, errs
	if signal.Ignored(os.Interrupt) { // as in the background of a script; child processes of a process that catches it do not inherit that
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	p.Env = append(os.Environ(), asCommand+"=1", "SANDBOX_URL=")
	require.NoError(t, p.Start())
	t.Cleanup(func() { p.Process.Kill(); p.Wait() })
	return p
}

// end waits for the end, and returns the exit code and standard error.
func (p *process) end(t *testing.T) (code int, says string) {
	t.Helper()
	err := p.Wait()
	if err != nil {
		require.IsType(t, &exec.ExitError{}, err)
	}
	text, err := os.ReadFile(p.errs)
	require.NoError(t, err)
	return p.ProcessState.ExitCode(), string(text)
}

// kill kills the process at an arbitrary instruction, and waits until the processes that it started have ended, too. It returns their
// number.
func (p *process) kill(t *testing.T) int {
	t.Helper()
	require.NoError(t, p.Process.Signal(syscall.SIGSTOP)) // a stopped process starts no children
	family := descendants(t, p.Process.Pid)
	require.NoError(t, p.Process.Kill())
	p.Wait()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		left := slices.DeleteFunc(slices.Clone(family), func(r processIdentity) bool { return !r.alive() })
		if len(left) == 0 {
			return len(family)
		}
		require.True(t, time.Now().Before(deadline), "alive after their trainer was killed: %v", left)
	}
}

// processIdentity is a process, identified by number and start time, since numbers are reused.
type processIdentity struct {
	pid    int
	parent int
	born   string
}

// readProcess reads the state of a process from /proc.
func readProcess(pid int) (r processIdentity, alive bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return r, false
	}
	words := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // fields from the third on
	parent, err := strconv.Atoi(words[1])
	return processIdentity{pid, parent, words[19]}, err == nil && words[0] != "Z"
}

func (r processIdentity) alive() bool {
	now, alive := readProcess(r.pid)
	return alive && now.born == r.born
}

// descendants are the processes started by a process, and by those, and so on.
func descendants(t *testing.T, pid int) (family []processIdentity) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	children := map[int][]processIdentity{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if r, alive := readProcess(pid); alive {
				children[r.parent] = append(children[r.parent], r)
			}
		}
	}
	family = slices.Clone(children[pid])
	for i := 0; i < len(family); i++ {
		family = append(family, children[family[i].pid]...)
	}
	return family
}

// spent is the processor time of a process so far, in steps of a hundredth of a second.
func (p *process) spent(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	require.NoError(t, err)
	words := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // fields from the third on
	total := 0
	for _, word := range words[11:13] {
		ticks, err := strconv.Atoi(word)
		require.NoError(t, err)
		total += ticks
	}
	return time.Duration(total) * 10 * time.Millisecond
}

// waitFor waits until so is true; false means that the process ended before.
func (p *process) waitFor(so func() bool) bool {
	for !so() {
		if _, alive := readProcess(p.Process.Pid); !alive {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return true
}
