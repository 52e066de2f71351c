// Package screen shows progress to a person: a line that is redrawn while something runs, and permanent lines for what is
// done. Without a terminal (in a pipe, a log) there are only permanent lines. It computes nothing.
package screen

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// Screen shows a run.
type Screen struct {
	out, errs   io.Writer
	quiet, json bool
	bar         *progressbar.ProgressBar
	terminal    bool
	rewards     []float64
	pace        pace
	step        int // the last completed step

	phase  string // what the bar shows
	began  time.Time
	tokens int // tokens of the phase so far
}

var _ grpo.Watcher = (*Screen)(nil)

// New shows results on out and progress on errs.
func New(out, errs io.Writer, quiet, json bool) *Screen {
	_, terminal := drawingWidth(errs)
	return &Screen{out: out, errs: errs, quiet: quiet, json: json, terminal: terminal && !quiet && !json}
}

// IgnoreBrokenPipe lets a verb continue if the reader of its output goes away, such as a tee that was interrupted: until done is called,
// writes fail instead of killing the process. Child processes do not inherit this.
func IgnoreBrokenPipe() (done func()) {
	gone := make(chan os.Signal, 1)
	signal.Notify(gone, syscall.SIGPIPE)
	return func() { signal.Stop(gone) }
}

// Expect sets the current step, the last step, and the steps between evaluations; below 1: unknown.
func (s *Screen) Expect(step, last, every int) {
	s.step, s.pace.limit, s.pace.every = step, last, every
}

// Begun prints how the run starts.
func (s *Screen) Begun(how string) {
	s.pace.lap(time.Now())
	if !s.quiet && !s.json {
		PrintLine(s.errs, how)
	}
}

// Phase starts a bar.
func (s *Screen) Phase(name string, units int) {
	s.End()
	s.phase, s.began, s.tokens = name, time.Now(), 0
	if s.pace.limit > 0 && s.step < s.pace.limit {
		s.phase = fmt.Sprintf("%s done  %-6s", s.of(s.step), name)
	}
	if s.terminal {
		s.bar = newBar(s.errs, int64(units), 62, progressbar.OptionSetDescription(s.phase), progressbar.OptionShowCount())
	}
}

// of is a step, with the number of all steps.
func (s *Screen) of(step int) string {
	if s.pace.limit < 1 {
		return fmt.Sprintf("%3d", step)
	}
	last := fmt.Sprint(s.pace.limit)
	return fmt.Sprintf("%*d/%s", len(last), step, last)
}

// Advance advances the bar.
func (s *Screen) Advance(units, tokens int) {
	if s.bar == nil {
		return
	}
	if s.tokens += tokens; s.tokens > 0 {
		s.bar.Describe(fmt.Sprintf("%s %6.0f tokens/s", s.phase, float64(s.tokens)/time.Since(s.began).Seconds()))
	}
	_ = s.bar.Add(units) // failing to draw a bar is no error
}

// End removes the bar.
func (s *Screen) End() {
	if s.bar != nil {
		_ = s.bar.Finish()
		s.bar = nil
	}
}

// StepDone prints a step.
func (s *Screen) StepDone(m grpo.Metrics, t grpo.Timing, advice []grpo.Advice) {
	s.End()
	s.step, s.rewards = m.Step, append(s.rewards, m.MeanReward)
	s.pace.steps = appendRecent(s.pace.steps, cmp.Or(s.pace.lap(time.Now()), t.Total))
	if s.json {
		s.Line(struct {
			grpo.Metrics
			Timing grpo.Timing   `json:"timing"`
			Advice []grpo.Advice `json:"advice,omitempty"`
		}{m, t, advice})
		return
	}
	if !s.quiet {
		columns, _ := Width(s.out)
		fmt.Fprintln(s.out, s.summary(m, t, columns))
	}
	s.advise(advice)
}

// summary is a step in lines of that width, with a sparkline of rewards in the rest of the last one.
func (s *Screen) summary(m grpo.Metrics, t grpo.Timing, columns int) string {
	parts := m.Parts(t)
	parts[0] = "step " + s.of(m.Step)
	if left, known := s.pace.left(m.Step); known && m.Step < s.pace.limit {
		parts[0] += " · " + formatDuration(left) + " left"
	}
	text := wrapParts(parts, columns)
	last := text[strings.LastIndexByte(text, '\n')+1:]
	const least, most = 4, 24
	if room := columns - utf8.RuneCountInString(last) - 2; room >= least {
		text += "  " + sparkline(s.rewards, min(room, most))
	}
	return text
}

func (s *Screen) advise(advice []grpo.Advice) {
	for _, a := range advice {
		PrintLine(s.errs, fmt.Sprintf("  %s", a))
	}
}

// Evaluated prints an evaluation.
func (s *Screen) Evaluated(e grpo.Evaluation, advice []grpo.Advice) {
	s.End()
	s.pace.evals = appendRecent(s.pace.evals, s.pace.lap(time.Now()))
	switch {
	case s.json:
		s.Line(struct {
			Evaluation grpo.Evaluation `json:"evaluation"`
			Change     *stats.Change   `json:"change,omitempty"`
			Advice     []grpo.Advice   `json:"advice,omitempty"`
		}{e, e.Change, advice})
		return
	case !s.quiet:
		PrintLine(s.out, e.Summary())
	}
	s.advise(advice)
}

// Saved prints the path of a checkpoint.
func (s *Screen) Saved(dir string) {
	if s.json {
		s.Line(map[string]any{"checkpoint": dir})
	}
}

// Warn prints a warning.
func (s *Screen) Warn(what string) {
	s.End()
	PrintLine(s.errs, "  ! "+what)
}

// PrintRunDir prints where a finished run is, if it has a report; if that could not be written, there is an error already.
func PrintRunDir(w io.Writer, dir string) {
	report := filepath.Join(dir, "report.html")
	if _, err := os.Stat(report); err == nil {
		fmt.Fprintf(w, "\nthe run is in %s; look at %s\n", display.Line(dir), display.Line(report))
	}
}

// Line prints a value as a line of JSON.
func (s *Screen) Line(v any) {
	if text, err := json.Marshal(v); err == nil {
		fmt.Fprintln(s.out, string(text))
	}
}

// sparkline draws the end of a series in one line.
func sparkline(x []float64, width int) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	x = x[max(0, len(x)-width):]
	low, high := x[0], x[0]
	for _, v := range x {
		low, high = min(low, v), max(high, v)
	}
	var b strings.Builder
	for _, v := range x {
		at := 0
		if high > low {
			at = int((v - low) / (high - low) * float64(len(levels)-1))
		}
		b.WriteRune(levels[at])
	}
	return b.String()
}

// WarnOnce returns a function that prints warnings on errs, each of them once.
func WarnOnce(errs io.Writer) func(string) {
	said := map[string]bool{}
	return func(what string) {
		if !said[what] {
			said[what] = true
			PrintLine(errs, "  ! "+what)
		}
	}
}
