package grpo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const logFile = "logs.log"

// logbook is a watcher that writes down what it hears, for people, before it passes it on. Unlike the
// other files of a run it is never cut: it tells what happened, interruptions included.
type logbook struct {
	Watcher
	out *os.File
	err error // the first
}

// openLog opens the log of a run, which is locked until it is closed: two at once would write over each
// other.
func openLog(dir string, w Watcher) (*logbook, error) {
	f, err := os.OpenFile(filepath.Join(dir, logFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("another process trains in %s", dir), f.Close())
	} // a file system that knows no locks can do without
	return &logbook{Watcher: w, out: f}, nil
}

func (l *logbook) say(format string, args ...any) {
	_, err := fmt.Fprintf(l.out, time.Now().UTC().Format(time.RFC3339)+" "+format+"\n", args...)
	if l.err == nil {
		l.err = err
	}
}

func (l *logbook) StepDone(m Metrics, t Timing, advice []Advice) {
	l.say("%s", m.Summary(t))
	l.sayAll(advice)
	l.Watcher.StepDone(m, t, advice)
}

func (l *logbook) Evaluated(e Evaluation, advice []Advice) {
	l.say("%s", e.Summary())
	l.sayAll(advice)
	l.Watcher.Evaluated(e, advice)
}

func (l *logbook) sayAll(advice []Advice) {
	for _, a := range advice {
		l.say("%s", a)
	}
}

func (l *logbook) Saved(dir string) {
	l.say("saved %s", dir)
	l.Watcher.Saved(dir)
}

func (l *logbook) Warn(what string) {
	l.say("! %s", what)
	l.Watcher.Warn(what)
}

// Close ends the log and tells of lines that could not be written.
func (l *logbook) Close() error { return errors.Join(l.err, l.out.Close()) }
