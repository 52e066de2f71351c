package report

import (
	"bytes"
	"fmt"
	"html/template"
	"maps"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/display"
)

// Comparison is a page about several runs: tables, and charts with their curves. Like a run's page it is self-contained.
type Comparison struct {
	What, Of      string // the verb, and its arguments in short
	Title, Detail string
	Names         []string // of runs, each kept on one line in the title if possible
	Notes         []string // caveats
	Tables, After []Table  // before and after the charts
	Groups        []CurveGroup
}

// ComparisonMark occurs in every such page, and in no other file.
const ComparisonMark = `<meta name="generator" content="grpo comparison" />`

// Table is a table of the page. The first cell of a row is its name.
type Table struct {
	ID, Title, Lead string
	Header          []string
	Rows            []TableRow
	Wide            bool // cells are text and may be many
}

// TableRow is a row, with the color of its run if there is one.
type TableRow struct {
	Name  string
	Color string
	Cells []string
}

// CurveGroup is a section of charts over one axis of steps.
type CurveGroup struct {
	ID, Title string
	Scattered bool // steps are far apart, as those of evaluations
	Charts    []CurveChart
}

// CurveChart is one quantity of several runs.
type CurveChart struct {
	Title, Note string
	Share       bool // the scale is 0 to 1
	Seconds     bool
	Rate        bool // formatted as a percentage, on its own scale
	Curves      []Curve
}

// Curve is the quantity of one run, with an interval if there is one.
type Curve struct {
	Name, Color       string
	Steps             []int
	Values, Low, High []float64
}

// colors is how many colors can be distinguished, and dashes how many line styles there are.
const colors, dashes = 9, 4

// RunColor is the color of run i of a comparison; with more runs than colors it includes a line style.
func RunColor(i int) string {
	color := [colors]string{"c1", "c2", "c3", "c4", "c5", "c6", "c8", "c9", "c7"}[i%colors]
	if again := i / colors % dashes; again > 0 {
		color += fmt.Sprintf(" d%d", again)
	}
	return color
}

var comparisonLayout = template.Must(display.Template("comparison.html").ParseFS(parts, "comparison.html", "charts.html"))

// HTML draws the page.
func (c *Comparison) HTML() ([]byte, error) {
	var sections []section
	for _, g := range c.Groups {
		if s, ok := g.section(); ok {
			sections = append(sections, s)
		}
	}
	seen := *c
	seen.Of, seen.Title, seen.Detail = display.Visible(c.Of), display.Visible(c.Title), display.Visible(c.Detail)
	seen.Notes = make([]string, len(c.Notes))
	for i, note := range c.Notes {
		seen.Notes[i] = display.Visible(note)
	}
	seen.Tables, seen.After = visibleTables(c.Tables), visibleTables(c.After)
	var b bytes.Buffer
	err := comparisonLayout.Execute(&b, struct {
		Comparison
		Heading    []display.HeadingPart
		Sections   []section
		ScriptHash string
		Script     template.JS
	}{seen, display.Heading(c.Title, c.Names), sections, display.ScriptHash(script), template.JS(script)})
	return b.Bytes(), err
}

func visibleTables(tables []Table) []Table {
	out := slices.Clone(tables)
	for i := range out {
		out[i].Rows = slices.Clone(out[i].Rows)
		for k, row := range out[i].Rows {
			row.Name, row.Cells = display.Visible(row.Name), slices.Clone(row.Cells)
			for j := range row.Cells {
				row.Cells[j] = display.Visible(row.Cells[j])
			}
			out[i].Rows[k] = row
		}
	}
	return out
}

// section lays the charts out over all steps of their curves.
func (g CurveGroup) section() (s section, ok bool) {
	at := map[int]int{}
	for _, chart := range g.Charts {
		for _, curve := range chart.Curves {
			for _, step := range curve.Steps {
				at[step] = 0
			}
		}
	}
	if len(at) == 0 {
		return s, false
	}
	steps := slices.Sorted(maps.Keys(at))
	for i, step := range steps {
		at[step] = i
	}
	s = section{ID: g.ID, Title: g.Title, Axis: evenly(steps)}
	if g.Scattered {
		s.Axis = byStep(steps)
	} else {
		s.Lead = reading(s.Axis)
	}
	for _, chart := range g.Charts {
		s.add(chart.plot(at, g.Scattered))
	}
	s = s.drawn()
	return s, len(s.Charts)+len(s.Still) > 0
}

// mostName is the length to which a run's name is shortened in a legend; tables have all of it.
const mostName = 40

// plot places the curves on the axis.
func (c CurveChart) plot(at map[int]int, dots bool) plot {
	format := number
	switch {
	case c.Share, c.Rate:
		format = rate
	case c.Seconds:
		format = seconds
	}
	p := plot{title: c.Title, note: c.Note, share: c.Share, plain: dots, dots: dots, joined: true}
	for _, curve := range c.Curves {
		one := series{name: display.TruncateMiddle(display.Visible(curve.Name), mostName), color: curve.Color, format: format,
			values: placeAtSteps(curve.Values, curve.Steps, at)}
		if curve.Low != nil {
			one.low, one.high = placeAtSteps(curve.Low, curve.Steps, at), placeAtSteps(curve.High, curve.Steps, at)
		}
		p.series = append(p.series, one)
	}
	if p.still() { // a list of constants would lack the chart's name
		for i := range p.series {
			p.series[i].name = fmt.Sprintf("%s, %s", c.Title, p.series[i].name)
		}
	}
	return p
}

func placeAtSteps(values []float64, steps []int, at map[int]int) []float64 {
	out := make([]float64, len(at))
	for i := range out {
		out[i] = nan
	}
	for i, step := range steps {
		out[at[step]] = values[i]
	}
	return out
}

// Number, Rate, Duration and Count format measurements as on the pages.
func Number(v float64) string { return number(v) }

// Rate formats a share.
func Rate(v float64) string { return rate(v) }

// Duration formats seconds.
func Duration(s float64) string { return duration(s) }

// Count formats a number of things.
func Count(n int, what string) string { return count(n, what) }
