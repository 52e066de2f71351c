package report

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/display"
)

// Page draws the page of a run in training, again and again.
type Page struct {
	Dir string
	// Verb is the command that resumes the run; "" is grpo.
	Verb string
	// Statement returns the text of a problem by its name, "" if it is unknown. It may be nil.
	Statement func(problem string) string

	drawn   time.Time     // when it was last drawn
	took    time.Duration // to draw it
	longest time.Duration // between two drawings
	clock   func() time.Time
}

// Limits on how often a step has the page drawn, and on the share of time that this takes.
const (
	seldom       = 15 * time.Second
	liveInterval = 50
)

// Update draws the page of a run that continues.
func (p *Page) Update() error {
	return p.draw(status{word: "Running"})
}

// UpdateIfDue is Update, unless the page was just drawn.
func (p *Page) UpdateIfDue() error {
	if since := p.now().Sub(p.drawn); since < max(seldom, liveInterval*p.took) {
		return nil
	}
	return p.Update()
}

// Finish draws the page of a run whose process ends; because is its error or nil.
func (p *Page) Finish(because error) error {
	s := status{word: "Finished"}
	switch {
	case errors.Is(because, context.Canceled), errors.Is(because, context.DeadlineExceeded):
		s = status{word: "Stopped", command: p.command()}
	case because != nil:
		s = status{word: "Ended by an error", why: because.Error(), command: p.command()}
	}
	return p.draw(s)
}

// command is the command that resumes the run.
func (p *Page) command() string {
	return cmp.Or(p.Verb, "grpo") + " run_dir=" + display.ShellQuote(p.Dir)
}

func (p *Page) now() time.Time {
	if p.clock != nil {
		return p.clock()
	}
	return time.Now()
}

func (p *Page) draw(s status) error {
	began := p.now()
	if !p.drawn.IsZero() {
		p.longest = max(p.longest, began.Sub(p.drawn))
	}
	s.written, s.every = began, p.longest
	if s.word == "Running" {
		s.command = p.command()
	}
	text, err := render(p.Dir, s, p.Statement)
	if err == nil {
		err = atomicfile.WriteBytes(filepath.Join(p.Dir, File), text)
	}
	p.drawn, p.took = began, p.now().Sub(began)
	return err
}

// status is the state of the training process when a page is drawn.
type status struct {
	word, why string
	command   string // that resumes the run
	written   time.Time
	every     time.Duration // the longest time between two pages; 0 if there was only one
}

// shownStatus is the status on the page.
type shownStatus struct {
	Word, Why, Command, Machine, Written, Tone string
	GoesOn                                     bool
	Every                                      int // seconds after which a newer page is overdue
}

// unsaid takes the place of every before the second page, as the first evaluation may take long.
const unsaid = 15 * time.Minute

func (s status) shown() *shownStatus {
	if s.word == "" {
		return nil
	}
	at := s.written.UTC()
	out := &shownStatus{Word: s.word, Why: display.Visible(display.Truncate(s.why, 500)), Command: display.Visible(s.command), Tone: "open",
		Machine: at.Format(time.RFC3339), Written: at.Format("2006-01-02 15:04:05 UTC")}
	switch s.word {
	case "Running":
		every := unsaid
		if s.every > 0 {
			every = 3*s.every + time.Minute
		}
		out.GoesOn, out.Every = true, int(every.Seconds())
	case "Finished":
		out.Tone = "good"
	case "Ended by an error":
		out.Tone = "bad"
	}
	return out
}
