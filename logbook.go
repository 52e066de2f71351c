package grpo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const logFile = "logs.log"

// logbook is a watcher that writes down what it hears, for people, before it passes it on. Unlike the
// other files of a run its log is never cut: it tells what happened, interruptions included.
type logbook struct {
	Watcher
	out   *os.File // nil until open
	early []byte   // what was said before
	err   error    // the first
}

// open begins the log of the run in dir.
func (l *logbook) open(dir string) (err error) {
	if l.out, err = os.OpenFile(filepath.Join(dir, logFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
		_, l.err = l.out.Write(l.early)
	}
	return err
}

func (l *logbook) say(format string, args ...any) {
	line := fmt.Appendf(nil, time.Now().UTC().Format(time.RFC3339)+" "+format+"\n", args...)
	if l.out == nil {
		l.early = append(l.early, line...)
		return
	}
	_, err := l.out.Write(line)
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
func (l *logbook) Close() error {
	if l.out == nil {
		return nil
	}
	return errors.Join(l.err, l.out.Close())
}
