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

// children makes each run as a process of its own.
type children struct {
	journal *sweep.Journal
	share   []string // settings of runs that share the machine
}

// patience is what an interrupted run has to save what it has.
const patience = 10 * time.Minute

// run makes a run, or goes on with it. Should this process be killed, its child is too. An interruption is passed on, and waited for.
func (c children) run(ctx context.Context, e sweep.Entry, words []string) error {
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
	cmd.Stderr, cmd.SysProcAttr = log, apart()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = patience
	// The kernel ends a child with the thread that started it, so that thread has to stay.
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

// why is the reason that a process ended for, as an error that tells whether it lost its policy.
func why(log *os.File, from int64, err error) error {
	said := reason(log, from, err)
	if learning.Told(said) {
		return lost(said)
	}
	return errors.New(said)
}

// lost is why a run ended that its settings led to where it computes no numbers any more.
type lost string

func (l lost) Error() string { return string(l) }
func (l lost) Unwrap() error { return sweep.ErrLost }

// reason is why a process ended: that it was killed, of which it knows nothing, or what it said last.
func reason(log *os.File, from int64, err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) && !exit.Exited() {
		return fmt.Sprintf("it was ended from outside, %v: where memory ran out, the kernel's log says so (%s)", err, log.Name())
	}
	return lastLine(log, from, err)
}

// lastLine is what a process said last, which is why it ended.
func lastLine(log *os.File, from int64, err error) string {
	text := ""
	if info, err := log.Stat(); err == nil {
		end := make([]byte, min(max(info.Size()-from, 0), 64<<10))
		n, _ := log.ReadAt(end, info.Size()-int64(len(end))) // as much of the reason as can be read
		text = strings.TrimSpace(string(end[:n]))
	}
	last := strings.TrimPrefix(strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:]), "grpo: ")
	if last == "" {
		last = err.Error()
	}
	return fmt.Sprintf("%s (%s)", last, log.Name())
}
