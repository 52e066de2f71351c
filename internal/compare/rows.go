package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/report"
)

// HeldOut is a warm-up's evaluation on held-out rows.
type HeldOut struct {
	Step     int     `json:"step"`
	Rows     int     `json:"rows"`
	Tokens   int     `json:"tokens"` // of these rows
	Loss     float64 `json:"loss"`
	Accuracy float64 `json:"accuracy"` // of pairs, like Margin
	Margin   float64 `json:"reward_margin"`
}

// heldFigures are the columns about held-out rows.
var heldFigures = []struct {
	name string
	of   func(h *HeldOut) float64
}{
	{"held_out_loss", func(h *HeldOut) float64 { return h.Loss }},
	{"held_out_accuracy", func(h *HeldOut) float64 { return h.Accuracy }},
	{"held_out_margin", func(h *HeldOut) float64 { return h.Margin }},
}

// HeldOutAt is the evaluation after a step, the last one if step is below 0; nil if there is none.
func (r *Run) HeldOutAt(step int) *HeldOut {
	for i := len(r.HeldOut) - 1; i >= 0; i-- {
		if step < 0 || r.HeldOut[i].Step == step {
			return &r.HeldOut[i]
		}
	}
	return nil
}

// heldBefore is the first of the evaluations that led to h on the same rows, as far as their number of tokens tells. A resumed run
// may have changed the held-out rows in between.
func (r *Run) heldBefore(h *HeldOut) *HeldOut {
	first := h
	for i := len(r.HeldOut) - 1; i >= 0; i-- {
		switch x := &r.HeldOut[i]; {
		case x.Step > h.Step:
		case x.Rows != h.Rows || x.Tokens != h.Tokens:
			return first
		default:
			first = x
		}
	}
	return first
}

// loss is the loss of a warm-up; in GRPO it is not comparable.
func (r *Run) loss(s *Step) float64 {
	if !r.Settings.Warmup() {
		return nan
	}
	return s.Loss
}

// lateLoss is its mean over the last tenth of the steps.
func (r *Run) lateLoss() float64 { return r.LateMean(r.loss) }

// anyWarmup reports whether any run is a warm-up.
func anyWarmup(runs []*Run) bool {
	return slices.ContainsFunc(runs, func(r *Run) bool { return r.Settings.Warmup() })
}

// anyTraining reports whether any run is not a warm-up.
func anyTraining(runs []*Run) bool {
	return slices.ContainsFunc(runs, func(r *Run) bool { return !r.Settings.Warmup() })
}

// rowsHeader are the columns of warm-ups, and rowCells their values for a run.
func rowsHeader() []string {
	out := []string{"train_loss", "held_out_at", "held_out_rows"}
	for _, f := range heldFigures {
		out = append(out, f.name)
	}
	return out
}

func (r *Run) rowCells(step int) []any {
	h := r.HeldOutAt(step)
	if h == nil {
		return []any{r.lateLoss(), nil, nil, nan, nan, nan}
	}
	out := []any{r.lateLoss(), h.Step, h.Rows}
	for _, f := range heldFigures {
		out = append(out, f.of(h))
	}
	return out
}

// rowsTable has the warm-ups' evaluations on held-out rows; nil if there are no warm-ups.
func (c *Comparison) rowsTable() *report.Table {
	if !anyWarmup(c.Runs) {
		return nil
	}
	t := &report.Table{ID: "rows", Title: "Held-out rows", Lead: "before: at the first evaluation",
		Header: []string{"run", "after step", "rows", "loss", "before", "accuracy", "margin"}}
	t.Rows = c.rows(func(_ int, r *Run) []string {
		h := r.HeldOutAt(c.Step)
		if h == nil {
			return []string{"–", "–", "–", "–", "–", "–"}
		}
		return []string{fmt.Sprint(h.Step), fmt.Sprint(h.Rows), rounded(h.Loss),
			rounded(r.heldBefore(h).Loss), rate(h.Accuracy), rounded(h.Margin)}
	})
	return t
}

// rowsText is that table for a terminal, with the losses of the steps.
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

// rowCurves are the losses of warm-ups.
func rowCurves(runs []*Run) []report.CurveGroup {
	held := report.CurveGroup{ID: "held-out-rows", Title: "Held-out rows over the run", Scattered: true,
		Charts: []report.CurveChart{{Title: "Loss of held-out rows"}, {Title: "Accuracy", Share: true}, {Title: "Margin"}}}
	steps := report.CurveChart{Title: "Loss of a step"}
	for i, r := range runs {
		all := make([]report.Curve, len(heldFigures))
		for k, f := range heldFigures {
			all[k].Name, all[k].Color = r.Name, report.RunColor(i)
			for j := range r.HeldOut {
				all[k].Steps, all[k].Values = append(all[k].Steps, r.HeldOut[j].Step), append(all[k].Values, f.of(&r.HeldOut[j]))
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

// sameRows reports whether two warm-ups held out the same rows: from the same file, or drawn from the same data with the same seed.
func sameRows(a, b *Run) bool {
	named, other := a.Parts["test_data"].SHA256, b.Parts["test_data"].SHA256
	if named != "" || other != "" {
		return named == other
	}
	return a.Parts["data"].SHA256 == b.Parts["data"].SHA256 && a.Settings.Seed == b.Settings.Seed && a.Settings.HeldOut == b.Settings.HeldOut
}
