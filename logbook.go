package grpo

import "github.com/seed-7879b91d/grpo/internal/rundir"

const logFile = "logs.log"

// logbook is a Watcher that writes each event to logs.log, for people to read, before it passes it on.
type logbook struct {
	Watcher
	rundir.Journal
}

func (l *logbook) Begun(how string) {
	l.Say("%s", how)
	l.Watcher.Begun(how)
}

func (l *logbook) StepDone(m Metrics, t Timing, advice []Advice) {
	l.Say("%s", m.Summary(t))
	l.sayAll(advice)
	l.Watcher.StepDone(m, t, advice)
}

func (l *logbook) Evaluated(e Evaluation, advice []Advice) {
	l.Say("%s", e.Summary())
	l.sayAll(advice)
	l.Watcher.Evaluated(e, advice)
}

func (l *logbook) sayAll(advice []Advice) {
	for _, a := range advice {
		l.Say("%s", a)
	}
}

func (l *logbook) Saved(dir string) {
	l.SayPath("saved", dir)
	l.Watcher.Saved(dir)
}

func (l *logbook) Warn(what string) {
	l.Say("! %s", what)
	l.Watcher.Warn(what)
}
