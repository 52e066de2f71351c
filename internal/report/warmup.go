package report

import (
	"fmt"
	"strings"
)

// heldRows is a warm-up's evaluation on held-out rows.
type heldRows struct {
	Step        int     `json:"step"`
	Rows        int     `json:"rows"`
	Tokens      int     `json:"tokens"`
	Loss        float64 `json:"loss"`
	PerSequence float64 `json:"loss_per_sequence"`
	pairs
}

// pairs is the part of it about preferences.
type pairs struct {
	Margin   float64 `json:"reward_margin"`
	Accuracy float64 `json:"accuracy"`
	Chosen   float64 `json:"reward_chosen"`
	Rejected float64 `json:"reward_rejected"`
}

var unknownPairs = pairs{nan, nan, nan, nan}

func unknownRows(step int) heldRows {
	return heldRows{Step: step, Loss: nan, PerSequence: nan, pairs: unknownPairs}
}

// warmup reports whether the run is a warm-up.
func (r *run) warmup() bool { return r.settings.Method == "sft" || r.settings.Method == "dpo" }

// verb is the command that resumes the run.
func (r *run) verb() string {
	if r.warmup() {
		return "grpo " + r.settings.Method
	}
	return "grpo"
}

// lastStep is the last step of the run: if max_steps is not set, a warm-up ends with its last epoch. -1: it has none.
func (r *run) lastStep() int {
	s := &r.settings
	if !r.warmup() || s.Epochs < 1 || s.Rows < 1 || r.origin.Problems < 1 {
		return s.MaxSteps
	}
	steps := (s.Epochs*r.origin.Problems + s.Rows - 1) / s.Rows
	if s.MaxSteps >= 0 {
		return min(steps, s.MaxSteps)
	}
	return steps
}

// unit is what the run is trained on.
func (r *run) unit() string {
	if r.warmup() {
		return "row"
	}
	return "problem"
}

// rowsSay judges a warm-up by its held-out rows.
func (r *run) rowsSay() verdict {
	held, others := r.sameRows()
	n := len(held)
	switch {
	case len(r.steps) == 0 && n == 0:
		return verdict{Tone: "open", Sentence: "No step is done yet"}
	case n == 0:
		return verdict{Tone: "open", Sentence: "The loss is " + number(r.steps[len(r.steps)-1].Loss) + " after " + count(len(r.steps), "step"),
			Detail: "Without held-out rows, this does not show whether the model learned."}
	case n == 1:
		return verdict{Tone: "open", Sentence: fmt.Sprintf("The held-out loss is %s after step %d", number(held[0].Loss), held[0].Step),
			Detail: others}
	}
	first, last := held[0], held[n-1]
	v := verdict{Tone: "open", Sentence: "The held-out loss stayed at " + number(last.Loss)}
	switch {
	case last.Loss < first.Loss:
		v = verdict{Tone: "good", Sentence: "The held-out loss fell from " + number(first.Loss) + " to " + number(last.Loss)}
	case last.Loss > first.Loss:
		v = verdict{Tone: "bad", Sentence: "The held-out loss rose from " + number(first.Loss) + " to " + number(last.Loss)}
	}
	if last.Accuracy == last.Accuracy {
		v.Detail = "The chosen answer of a held-out pair has the higher reward in " + rate(last.Accuracy) + " of them."
	}
	best := first
	for _, h := range held {
		if h.Loss < best.Loss {
			best = h
		}
	}
	if best.Loss < last.Loss && best.Step != first.Step {
		v.Detail += fmt.Sprintf(" It was lowest at step %d, %s.", best.Step, number(best.Loss))
	}
	v.Detail = strings.TrimSpace(v.Detail + " " + others)
	return v
}

// alike reports whether two evaluations were on the same rows, as far as is recorded.
func (h *heldRows) alike(o *heldRows) bool { return h.Rows == o.Rows && h.Tokens == o.Tokens }

// sameRows are the evaluations on the rows of the last one, and a sentence about the others.
func (r *run) sameRows() (held []heldRows, others string) {
	for i := range r.held {
		if r.held[i].alike(&r.held[len(r.held)-1]) {
			held = append(held, r.held[i])
		}
	}
	if len(held) < len(r.held) {
		others = "Earlier evaluations had other held-out rows, and do not compare."
	}
	return held, others
}

// heldRows are the charts of held-out rows.
func (r *run) heldRows() section {
	held, lead := breakLines(r.held, (*heldRows).alike, func(at *heldRows) heldRows { return unknownRows(at.Step) }, "rows")
	steps := make([]int, len(held))
	over := func(name, color string, format func(float64) string, of func(h *heldRows) float64) series {
		s := series{name: name, color: color, format: format}
		for i := range held {
			s.values = append(s.values, of(&held[i]))
		}
		return s
	}
	for i, h := range held {
		steps[i] = h.Step
	}
	s := section{ID: "held-out", Title: "Held-out rows", Lead: lead, Axis: byStep(steps)}
	s.add(
		plot{title: "Loss", plain: true, dots: true,
			series: []series{over("loss", "c1", number, func(h *heldRows) float64 { return h.Loss })}},
		plot{title: "Loss of a conversation", plain: true, dots: true,
			series: []series{over("per conversation", "c3", number, func(h *heldRows) float64 { return h.PerSequence })}},
		plot{title: "Accuracy", note: "share of pairs whose chosen answer has the higher reward", plain: true, dots: true, share: true,
			series: []series{over("accuracy", "c1", rate, func(h *heldRows) float64 { return h.Accuracy })}},
		plot{title: "Rewards", note: "dpo_beta times log p − log ref", plain: true, dots: true, series: []series{
			over("chosen", "c1", number, func(h *heldRows) float64 { return h.Chosen }),
			over("rejected", "c3", number, func(h *heldRows) float64 { return h.Rejected })}},
	)
	return s
}

// lessons are the charts of the steps of a warm-up.
func (r *run) lessons(a *axis) section {
	s := section{ID: "lessons", Title: "Learning", Lead: reading(a), Axis: a}
	if !r.warmup() {
		return s
	}
	s.add(
		plot{title: "Loss", series: []series{r.line("loss", "c1", number, func(s *step) float64 { return s.Loss })}},
		plot{title: "Accuracy", note: "share of pairs whose chosen answer has the higher reward", share: true,
			series: []series{r.line("accuracy", "c1", rate, func(s *step) float64 { return s.Accuracy })}},
		plot{title: "Rewards", note: "dpo_beta times log p − log ref", series: []series{
			r.line("chosen", "c1", number, func(s *step) float64 { return s.Chosen }),
			r.line("rejected", "c3", number, func(s *step) float64 { return s.Rejected })}},
		plot{title: "Margin", note: "of the rewards",
			series: []series{r.line("margin", "c2", number, func(s *step) float64 { return s.Margin })}},
	)
	return s
}
