package autopilot

import (
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// The kinds of deeds.
const (
	Tried      = "tries"
	Kept       = "keeps"
	RolledBack = "goes back"
	Continued  = "goes on"
)

// Decision is a line of File: a decision after a step, and its reason.
type Decision struct {
	Step    int          `json:"step"`
	Did     string       `json:"did"`
	To      *int         `json:"to,omitempty"` // the step rolled back to
	Rule    string       `json:"rule"`
	Why     string       `json:"why"`
	Setting string       `json:"setting,omitempty"`
	Before  float64      `json:"before"`
	After   float64      `json:"after"`
	Score   *float64     `json:"score,omitempty"`  // as measured
	Change  *float64     `json:"change,omitempty"` // compared with the step that a rollback would go to
	CI      []float64    `json:"ci,omitempty"`     // 95 % interval of Change
	Undone  []UndoneStep `json:"undone,omitempty"` // the steps that a rollback discarded
}

// UndoneStep is a step that a rollback discarded: its reward, and how far it moved the policy.
type UndoneStep struct {
	Step   int     `json:"step"`
	Reward float64 `json:"reward"`
	KL     float64 `json:"kl"`
}

func (d *Decision) measured(found stats.Judged, c *stats.Change) {
	score := stats.Mean(found.Correct)
	if d.Score = &score; c != nil {
		d.Change, d.CI = &c.Mean, c.CI[:]
	}
}

// clone is a copy that does not share memory with the pilot.
func (d Decision) clone() Decision {
	to := *d.To
	d.To = &to
	return d
}

// String words a deed.
func (d Decision) String() string {
	change := fmt.Sprintf("%s=%.4g", d.Setting, d.After)
	score := ""
	if d.Score != nil {
		score = fmt.Sprintf(" (%.3f", *d.Score)
		if d.Change != nil {
			score += fmt.Sprintf(", %+.3f [%+.3f, %+.3f]", *d.Change, d.CI[0], d.CI[1])
		}
		score += ")"
	}
	switch d.Did {
	case Tried:
		return fmt.Sprintf("autopilot, step %d: tries %s, which was %.4g; %s: %s", d.Step, change, d.Before, d.Rule, d.Why)
	case Kept:
		return fmt.Sprintf("autopilot, step %d: keeps %s: %s%s", d.Step, change, d.Why, score)
	case RolledBack:
		return fmt.Sprintf("autopilot, step %d: goes back to step %d, and continues with %s, which was %.4g; %s: %s",
			d.Step, *d.To, change, d.Before, d.Rule, d.Why)
	}
	return fmt.Sprintf("autopilot, step %d: changes nothing; %s: %s", d.Step, d.Rule, d.Why)
}

// Summary says at the end of a run what was done; "" if nothing was.
func (p *Pilot) Summary() string {
	if p == nil {
		return ""
	}
	if p.Last == (Counts{}) {
		return "autopilot: found nothing to act on"
	}
	text := fmt.Sprintf("autopilot: %s tried, %d kept, went back %s", plural.Of(p.Last.Tried, "change"), p.Last.Kept,
		plural.Of(p.Last.Undone, "time"))
	var now []string
	for _, key := range []string{Rate, Temperature, Format, Completions, Overlong} {
		if v, other := p.Now[key]; other {
			now = append(now, fmt.Sprintf("%s=%.4g (was %.4g)", key, v, p.Own[key]))
		}
	}
	if len(now) > 0 {
		text += "; settings at the end: " + strings.Join(now, ", ")
	}
	return text
}
