package sweep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/seed-7879b91d/grpo/internal/learning"
	"github.com/seed-7879b91d/grpo/internal/sweep"
)

// childRuns makes each run in a child process.
type childRuns struct {
	journal *sweep.Journal
	share   []string // settings of runs that run in parallel
}

// saveTimeout is how long an interrupted run may take to save its state.
const saveTimeout = 10 * time.Minute

// run makes or resumes a run. If this process is killed, the child is too. An interruption is forwarded, and the child waited for.
func (c childRuns) run(ctx context.Context, e sweep.Entry, words []string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(c.journal.LogPath(e.Name), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	began, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	args := append([]string{"--quiet", "--config-file", c.journal.SettingsPath(), "run_dir=" + c.journal.RunDir(e.Name)}, words...)
	for _, w := range c.share {
		key, _, _ := strings.Cut(w, "=")
		if !slices.ContainsFunc(words, func(other string) bool { return strings.HasPrefix(other, key+"=") }) {
			args = append(args, w)
		}
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Stderr, cmd.SysProcAttr = log, childAttributes()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = saveTimeout
	// The kernel kills a child when the thread that started it ends, so keep that thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return why(log, began, err)
	}
	return nil
}

// why is the error of a child process. It wraps ErrLost if the run broke its policy.
func why(log *os.File, from int64, err error) error {
	said := reason(log, from, err)
	if learning.OutputDiverged(said) {
		return brokenPolicyError(said)
	}
	return errors.New(said)
}

// brokenPolicyError is the error of a run that broke its policy.
type brokenPolicyError string

func (l brokenPolicyError) Error() string { return string(l) }
func (l brokenPolicyError) Unwrap() error { return sweep.ErrDiverged }

// reason is why a process ended: it was killed, or the last line of its output.
func reason(log *os.File, from int64, err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) && !exit.Exited() {
		return fmt.Sprintf("it was ended from outside, %v: where memory ran out, the kernel's log says so (%s)", err, log.Name())
	}
	return lastLine(log, from, err)
}

// lastLine is the last line of a process's output, which is its error.
func lastLine(log *os.File, from int64, err error) string {
	text := ""
	if info, err := log.Stat(); err == nil {
		end := make([]byte, min(max(info.Size()-from, 0), 64<<10))
		n, _ := log.ReadAt(end, info.Size()-int64(len(end))) // as much as can be read
		text = strings.TrimSpace(string(end[:n]))
	}
	last := strings.TrimPrefix(strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:]), "grpo: ")
	if last == "" {
		last = err.Error()
	}
	return fmt.Sprintf("%s (%s)", last, log.Name())
}
