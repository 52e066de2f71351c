package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/report"
)

// Held is what a warm-up found on the rows that it held out.
type Held struct {
	Step     int     `json:"step"`
	Rows     int     `json:"rows"`
	Tokens   int     `json:"tokens"` // of these rows
	Loss     float64 `json:"loss"`
	Accuracy float64 `json:"accuracy"` // of pairs, as the margin is
	Margin   float64 `json:"reward_margin"`
}

// heldFigures are what is told of held-out rows.
var heldFigures = []struct {
	name string
	of   func(h *Held) float64
}{
	{"held_out_loss", func(h *Held) float64 { return h.Loss }},
	{"held_out_accuracy", func(h *Held) float64 { return h.Accuracy }},
	{"held_out_margin", func(h *Held) float64 { return h.Margin }},
}

// HeldAt is what was found after a step, the last where step is below 0; nil where there is none.
func (r *Run) HeldAt(step int) *Held {
	for i := len(r.Held) - 1; i >= 0; i-- {
		if step < 0 || r.Held[i].Step == step {
			return &r.Held[i]
		}
	}
	return nil
}

// heldBefore is the first evaluation of the same rows as a later one, as far as their tokens tell, without others between: a run that
// goes on may hold others out.
func (r *Run) heldBefore(h *Held) *Held {
	first := h
	for i := len(r.Held) - 1; i >= 0; i-- {
		switch x := &r.Held[i]; {
		case x.Step > h.Step:
		case x.Rows != h.Rows || x.Tokens != h.Tokens:
			return first
		default:
			first = x
		}
	}
	return first
}

// loss is that of a warm-up; where completions are drawn it says nothing.
func (r *Run) loss(s *Step) float64 {
	if !r.Settings.Warmup() {
		return nan
	}
	return s.Loss
}

// lateLoss is its mean over the last tenth of the steps.
func (r *Run) lateLoss() float64 { return r.Late(r.loss) }

// taught tells whether any run is a warm-up.
func taught(runs []*Run) bool {
	return slices.ContainsFunc(runs, func(r *Run) bool { return r.Settings.Warmup() })
}

// untaught tells whether any run is none.
func untaught(runs []*Run) bool {
	return slices.ContainsFunc(runs, func(r *Run) bool { return !r.Settings.Warmup() })
}

// rowsHeader are the columns of warm-ups, and rowCells what a run has in them.
func rowsHeader() []string {
	out := []string{"train_loss", "held_out_at", "held_out_rows"}
	for _, f := range heldFigures {
		out = append(out, f.name)
	}
	return out
}

func (r *Run) rowCells(step int) []any {
	h := r.HeldAt(step)
	if h == nil {
		return []any{r.lateLoss(), nil, nil, nan, nan, nan}
	}
	out := []any{r.lateLoss(), h.Step, h.Rows}
	for _, f := range heldFigures {
		out = append(out, f.of(h))
	}
	return out
}

// rowsTable is what warm-ups found on the rows that they held out; nil where none is one.
func (c *Comparison) rowsTable() *report.Table {
	if !taught(c.Runs) {
		return nil
	}
	t := &report.Table{ID: "rows", Title: "Held-out rows", Lead: "before: at the first evaluation",
		Header: []string{"run", "after step", "rows", "loss", "before", "accuracy", "margin"}}
	t.Rows = c.rows(func(_ int, r *Run) []string {
		h := r.HeldAt(c.Step)
		if h == nil {
			return []string{"–", "–", "–", "–", "–", "–"}
		}
		return []string{fmt.Sprint(h.Step), fmt.Sprint(h.Rows), rounded(h.Loss),
			rounded(r.heldBefore(h).Loss), rate(h.Accuracy), rounded(h.Margin)}
	})
	return t
}

// rowsText is that table for a terminal, and the losses of the steps.
func (c *Comparison) rowsText(b *strings.Builder, label map[*Run]string) {
	held := c.rowsTable()
	if held == nil {
		return
	}
	t := grid{head: []string{"held-out rows", "step", "rows", "loss", "before", "accuracy", "margin", "of steps"}}
	for i, r := range c.Runs {
		t.add(append(append([]string{label[r]}, held.Rows[i].Cells...), rounded(r.lateLoss())))
	}
	t.print(b)
	b.WriteByte('\n')
}

// rowCurves are the losses of warm-ups over each other.
func rowCurves(runs []*Run) []report.CurveGroup {
	held := report.CurveGroup{ID: "held-out-rows", Title: "Held-out rows over the run", Scattered: true,
		Charts: []report.CurveChart{{Title: "Loss of held-out rows"}, {Title: "Accuracy", Share: true}, {Title: "Margin"}}}
	steps := report.CurveChart{Title: "Loss of a step"}
	for i, r := range runs {
		all := make([]report.Curve, len(heldFigures))
		for k, f := range heldFigures {
			all[k].Name, all[k].Color = r.Name, report.RunColor(i)
			for j := range r.Held {
				all[k].Steps, all[k].Values = append(all[k].Steps, r.Held[j].Step), append(all[k].Values, f.of(&r.Held[j]))
			}
			held.Charts[k].Curves = append(held.Charts[k].Curves, all[k])
		}
		curve := report.Curve{Name: r.Name, Color: report.RunColor(i)}
		for k := range r.Steps {
			curve.Steps, curve.Values = append(curve.Steps, r.Steps[k].Step), append(curve.Values, r.loss(&r.Steps[k]))
		}
		steps.Curves = append(steps.Curves, curve)
	}
	return []report.CurveGroup{held, {ID: "lessons", Title: "Learning", Charts: []report.CurveChart{steps}}}
}

const holdTheSame = "test_data=FILE holds the same ones out"

// sameRows tells whether two warm-ups held the same rows out: those of a file, or those that one seed draws of the same data.
func sameRows(a, b *Run) bool {
	named, other := a.Parts["test_data"].SHA256, b.Parts["test_data"].SHA256
	if named != "" || other != "" {
		return named == other
	}
	return a.Parts["data"].SHA256 == b.Parts["data"].SHA256 && a.Settings.Seed == b.Settings.Seed && a.Settings.HeldOut == b.Settings.HeldOut
}
