package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/report"
)

// PageMark occurs in every page of a comparison, and in no other file.
const PageMark = report.ComparisonMark

// mostBands is how many overlapping intervals can be distinguished.
const mostBands = 3

// Page is the comparison as a page.
func (c *Comparison) Page() *report.Comparison {
	p := &report.Comparison{What: "compare", Of: report.Count(len(c.Runs), "run"), Title: c.title(), Detail: c.detail(), Notes: c.Notes}
	for _, r := range c.Runs {
		p.Names = append(p.Names, r.Name)
	}
	if t := c.rowsTable(); t != nil {
		p.Tables = append(p.Tables, *t)
	}
	if anyTraining(c.Runs) {
		p.Tables = append(p.Tables, c.scoreTable())
	}
	if len(c.Settings) > 0 {
		p.Tables = append(p.Tables, c.settingsTable())
	}
	if anyWarmup(c.Runs) {
		p.Groups = rowCurves(c.Runs)
	}
	p.Groups = append(p.Groups, curves(c.Runs)...)
	p.After = append(p.After, c.costTable())
	if t := c.problemTable(); t != nil {
		p.After = append(p.After, *t)
	}
	return p
}

// title is the comparison in a sentence.
func (c *Comparison) title() string {
	best, sure := (*Pair)(nil), 0
	for i, p := range c.Pairs {
		if p.Greedy == nil {
			continue
		}
		if p.Greedy.Change.Sure() {
			sure++
		}
		if best == nil || p.Greedy.beats(best.Greedy) {
			best = &c.Pairs[i]
		}
	}
	switch {
	case best == nil:
		return report.Count(len(c.Runs), "run") + ", not compared problem by problem"
	case few(best.Greedy.Change.Problems):
		return fmt.Sprintf("%s, and %s, too few to say which is best", report.Count(len(c.Runs), "run"),
			report.Count(best.Greedy.Change.Problems, "held-out problem"))
	case sure == 0 && slices.ContainsFunc(c.Pairs, func(p Pair) bool { return p.Sampled != nil && p.Sampled.Change.Sure() }):
		return "Greedily, no run differs from " + c.Base.Name + " by more than chance"
	case sure == 0:
		return "No run differs from " + c.Base.Name + " by more than chance"
	case best.Greedy.better():
		return best.Run.Name + " does better than " + c.Base.Name
	}
	return c.Base.Name + " is not surpassed"
}

// better reports whether the run is significantly better than the base.
func (s *Side) better() bool { return s.Change.Sure() && s.Change.Mean > 0 }

// beats reports whether one run gains more than another. A significant gain counts more than one that is not.
func (s *Side) beats(other *Side) bool {
	if s.better() != other.better() {
		return s.better()
	}
	return s.Change.Mean > other.Change.Mean
}

func (c *Comparison) detail() string {
	if len(c.Pairs) < 2 || !slices.ContainsFunc(c.Pairs, func(p Pair) bool { return p.Greedy != nil }) {
		return ""
	}
	return fmt.Sprintf("Each run is compared only with %s, without correction for many comparisons: of twenty equal runs, one "+
		"will seem to differ.", c.Base.Name)
}

func (c *Comparison) rows(cells func(i int, r *Run) []string) (rows []report.TableRow) {
	for i, r := range c.Runs {
		rows = append(rows, report.TableRow{Name: r.Name, Color: report.RunColor(i), Cells: cells(i, r)})
	}
	return rows
}

func (c *Comparison) scoreTable() report.Table {
	against := "against " + cut(c.Base.Name, mostName)
	t := report.Table{ID: "scores", Title: "Held-out problems", Lead: "intervals of 95 %",
		Header: []string{"run", "after step", "greedy", against, "by chance?", "sampled", against, "pass@k"}}
	t.Rows = c.rows(func(_ int, r *Run) []string {
		w := c.scoreWords(r)
		out := []string{w[0], w[1], w[2], "–", w[3], "–", w[4]}
		for _, p := range c.Pairs {
			if p.Run != r {
				continue
			}
			if p.Greedy != nil {
				out[3] = p.Greedy.Change.Verdict()
			} else {
				out[3] = p.Refused
			}
			if p.Sampled != nil {
				d := p.Sampled.Change
				out[5] = fmt.Sprintf("%+.3f [%+.2f, %+.2f]", d.Mean, d.CI[0], d.CI[1])
			}
		}
		return out
	})
	return t
}

func (c *Comparison) settingsTable() report.Table {
	t := report.Table{ID: "settings", Title: "Settings that differ", Header: []string{"run"}}
	for _, s := range c.Settings {
		t.Header = append(t.Header, s.Key)
	}
	t.Rows = c.rows(func(i int, _ *Run) (cells []string) {
		for _, s := range c.Settings {
			cells = append(cells, s.Values[i])
		}
		return cells
	})
	return t
}

func (c *Comparison) costTable() report.Table {
	t := report.Table{ID: "cost", Title: "Time and tokens", Lead: "of the steps, evaluations not counted",
		Header: []string{"run", "steps", "time", "a step", "sampled tokens", "tokens/s"}}
	t.Rows = c.rows(func(_ int, r *Run) []string {
		total, n := r.Total(seconds), r.Total(tokens)
		return []string{r.progress(), duration(total), duration(total / float64(max(len(r.Steps), 1))), rounded(n), rounded(n / total)}
	})
	return t
}

// mostListed is how many problems a cell names.
const mostListed = 200

func (c *Comparison) problemTable() *report.Table {
	t := report.Table{ID: "problems", Title: "Problems that only one of them solves", Wide: true,
		Lead: "sampled: in any of the samples", Header: []string{"run", "it solves", cut(c.Base.Name, mostName) + " solves"}}
	names := func(all []string) string {
		if len(all) == 0 {
			return "–"
		}
		text := fmt.Sprintf("%d: %s", len(all), strings.Join(all[:min(len(all), mostListed)], ", "))
		if len(all) > mostListed {
			text += ", …"
		}
		return text
	}
	for i, r := range c.Runs {
		for _, p := range c.Pairs {
			if p.Run != r {
				continue
			}
			if p.Greedy != nil {
				t.Rows = append(t.Rows, report.TableRow{Name: r.Name + ", greedy", Color: report.RunColor(i),
					Cells: []string{names(p.Greedy.Won), names(p.Greedy.Lost)}})
			}
			if p.Sampled != nil {
				t.Rows = append(t.Rows, report.TableRow{Name: r.Name + ", sampled", Color: report.RunColor(i),
					Cells: []string{names(p.Sampled.Won), names(p.Sampled.Lost)}})
			}
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return &t
}

// curves are the curves of all runs.
func curves(runs []*Run) []report.CurveGroup {
	held := report.CurveGroup{ID: "held-out", Title: "Held-out problems over the run", Scattered: true, Charts: []report.CurveChart{
		{Title: "pass@1, greedy", Share: true}, {Title: "pass@1, sampled", Share: true}, {Title: "pass@k", Share: true}}}
	for i, r := range runs {
		var steps []int
		values := make([][]float64, 5)
		for _, e := range r.Evaluations {
			steps = append(steps, e.Step)
			for k, v := range []float64{e.Greedy, e.PassAt1, e.PassAtK, e.CI[0], e.CI[1]} {
				values[k] = append(values[k], v)
			}
		}
		for k := range held.Charts {
			curve := report.Curve{Name: r.Name, Color: report.RunColor(i), Steps: steps, Values: values[k]}
			if k == 0 && len(runs) <= mostBands {
				curve.Low, curve.High = values[3], values[4]
				held.Charts[k].Note = "the bands are 95 % intervals"
			}
			held.Charts[k].Curves = append(held.Charts[k].Curves, curve)
		}
	}
	training := report.CurveGroup{ID: "training", Title: "Training"}
	for _, q := range []struct {
		chart report.CurveChart
		of    func(*Step) float64
	}{
		{report.CurveChart{Title: "Mean reward", Rate: true}, reward},
		{report.CurveChart{Title: "KL of a step", Note: "between the policies before and after it"}, kl},
		{report.CurveChart{Title: "KL from the reference"}, klRef},
		{report.CurveChart{Title: "Entropy", Note: "nats per token"}, entropy},
		{report.CurveChart{Title: "Gradient norm"}, gradNorm},
		{report.CurveChart{Title: "Completion length", Note: "mean"}, length},
		{report.CurveChart{Title: "Seconds per step", Seconds: true}, seconds},
	} {
		for i, r := range runs {
			curve := report.Curve{Name: r.Name, Color: report.RunColor(i)}
			for k := range r.Steps {
				curve.Steps, curve.Values = append(curve.Steps, r.Steps[k].Step), append(curve.Values, q.of(&r.Steps[k]))
			}
			q.chart.Curves = append(q.chart.Curves, curve)
		}
		training.Charts = append(training.Charts, q.chart)
	}
	return []report.CurveGroup{held, training}
}
