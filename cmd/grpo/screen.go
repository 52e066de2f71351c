package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/seed-7879b91d/grpo"
)

// screen shows a run: bars while something goes on, and a line for each step that a tired person can
// read. Where nobody looks (a pipe, a log) there are only lines.
type screen struct {
	out, errs   io.Writer
	quiet, json bool
	bar         *progressbar.ProgressBar
	terminal    bool
	rewards     []float64

	phase  string // what the bar is of
	began  time.Time
	tokens int // of the phase so far
}

var _ grpo.Watcher = (*screen)(nil)

func newScreen(out, errs io.Writer, quiet, json bool) *screen {
	f, ok := errs.(*os.File)
	return &screen{out: out, errs: errs, quiet: quiet, json: json, terminal: ok && term.IsTerminal(int(f.Fd())) && !quiet && !json}
}

// Begun tells how the run begins.
func (s *screen) Begun(how string) {
	if !s.quiet && !s.json {
		fmt.Fprintln(s.errs, how)
	}
}

// Phase begins a bar.
func (s *screen) Phase(name string, units int) {
	s.end()
	s.phase, s.began, s.tokens = name, time.Now(), 0
	if s.terminal {
		s.bar = progressbar.NewOptions(units, progressbar.OptionSetWriter(s.errs), progressbar.OptionSetDescription(fmt.Sprintf("%-8s", name)),
			progressbar.OptionSetWidth(30), progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true))
	}
}

// Advance moves the bar.
func (s *screen) Advance(units, tokens int) {
	if s.bar == nil {
		return
	}
	if s.tokens += tokens; s.tokens > 0 {
		s.bar.Describe(fmt.Sprintf("%-8s %6.0f tokens/s", s.phase, float64(s.tokens)/time.Since(s.began).Seconds()))
	}
	_ = s.bar.Add(units) // a bar that cannot be drawn is no reason to stop
}

// end takes the bar off the screen.
func (s *screen) end() {
	if s.bar != nil {
		_ = s.bar.Finish()
		s.bar = nil
	}
}

// StepDone prints the step.
func (s *screen) StepDone(m grpo.Metrics, t grpo.Timing, advice []grpo.Advice) {
	s.end()
	s.rewards = append(s.rewards, m.MeanReward)
	if s.json {
		s.line(struct {
			grpo.Metrics
			Timing grpo.Timing   `json:"timing"`
			Advice []grpo.Advice `json:"advice,omitempty"`
		}{m, t, advice})
		return
	}
	if !s.quiet {
		fmt.Fprintf(s.out, "%s  %s\n", m.Summary(t), sparkline(s.rewards))
	}
	s.advise(advice)
}

func (s *screen) advise(advice []grpo.Advice) {
	for _, a := range advice {
		fmt.Fprintf(s.errs, "  %s\n", a)
	}
}

// Evaluated prints an evaluation.
func (s *screen) Evaluated(e grpo.Evaluation, advice []grpo.Advice) {
	s.end()
	switch {
	case s.json:
		s.line(struct {
			Evaluation grpo.Evaluation `json:"evaluation"`
			Advice     []grpo.Advice   `json:"advice,omitempty"`
		}{e, advice})
		return
	case !s.quiet:
		fmt.Fprintln(s.out, e.Summary())
	}
	s.advise(advice)
}

// Saved tells of a checkpoint.
func (s *screen) Saved(dir string) {
	if s.json {
		s.line(map[string]any{"checkpoint": dir})
	}
}

// Warn tells of something that went wrong and was survived.
func (s *screen) Warn(what string) {
	s.end()
	fmt.Fprintln(s.errs, "  ! "+what)
}

func (s *screen) line(v any) {
	if text, err := json.Marshal(v); err == nil {
		fmt.Fprintln(s.out, string(text))
	}
}

// sparkline draws the last of a series in one line.
func sparkline(x []float64) string {
	const width = 24
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
