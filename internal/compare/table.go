package compare

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// Table is a table for programs. Cells are strings, integers, or numbers, where NaN is unknown.
type Table struct {
	Header []string
	Rows   [][]any
}

// Formats are the formats of tables.
var Formats = []string{"csv", "markdown", "json"}

// CheckFormat refuses an unknown format; "" is for the terminal.
func CheckFormat(format string) error {
	for _, f := range append(Formats, "") {
		if format == f {
			return nil
		}
	}
	return badinput.Errorf("--format: found %q, expected csv, markdown or json; left out, a table for the terminal", format)
}

// Write writes a table as csv (RFC 4180, all digits) or markdown (three digits).
func (t *Table) Write(format string) ([]byte, error) {
	var b bytes.Buffer
	if format == "csv" {
		w := csv.NewWriter(&b)
		w.UseCRLF = true
		err := w.Write(t.Header)
		for _, row := range t.Rows {
			texts := make([]string, len(row))
			for i, cell := range row {
				texts[i] = exact(cell)
			}
			if err == nil {
				err = w.Write(texts)
			}
		}
		w.Flush()
		return b.Bytes(), err
	}
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	escape := strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ").Replace
	heads, rules := make([]string, len(t.Header)), make([]string, len(t.Header))
	for i, h := range t.Header {
		heads[i], rules[i] = escape(h), "---"
	}
	line(heads)
	line(rules)
	for _, row := range t.Rows {
		texts := make([]string, len(row))
		for i, cell := range row {
			texts[i] = escape(short(cell))
		}
		line(texts)
	}
	return b.Bytes(), nil
}

// exact is a cell with all digits, empty if it is unknown.
func exact(cell any) string {
	switch v := cell.(type) {
	case float64:
		if v != v {
			return ""
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	case nil:
		return ""
	}
	return fmt.Sprint(cell)
}

// short is a cell for people.
func short(cell any) string {
	if v, ok := cell.(float64); ok && v == v {
		switch a := math.Abs(v); {
		case a >= 1e15 || a > 0 && a < 0.0005:
			return strconv.FormatFloat(v, 'g', 3, 64)
		case a >= 1000:
			return strconv.FormatFloat(v, 'f', 0, 64)
		}
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return exact(cell)
}

// number is a value for JSON: null if it is unknown.
func number(v float64) any {
	if v != v {
		return nil
	}
	return v
}

// objects are the rows as JSON objects.
func (t *Table) objects() []map[string]any {
	out := make([]map[string]any, len(t.Rows))
	for i, row := range t.Rows {
		out[i] = map[string]any{}
		for k, cell := range row {
			if v, ok := cell.(float64); ok {
				cell = number(v)
			}
			out[i][t.Header[k]] = cell
		}
	}
	return out
}

// JSON is the rows as a list of objects.
func (t *Table) JSON() ([]byte, error) { return marshal(t.objects()) }

// Table has a row for each run. With times, it includes columns that depend on the clock, or on interruptions.
func (c *Comparison) Table(times bool) *Table {
	t := &Table{Header: []string{"run", "steps", "max_steps"}}
	settings := slices.DeleteFunc(slices.Clone(c.Settings), func(s Setting) bool {
		return s.Key == "max_steps" || !times && s.Key != "seed" && slices.Contains(unrelatedKeys, s.Key)
	})
	for _, s := range settings {
		t.Header = append(t.Header, s.Key)
	}
	t.Header = append(t.Header, "evaluated_at", "problems", "pass@1_greedy", "pass@1_greedy_low", "pass@1_greedy_high", "pass@1_sampled",
		"k", "pass@k", "best_of_k", "against", "paired", "greedy_change", "greedy_change_low", "greedy_change_high", "greedy_won",
		"greedy_lost", "sampled_change", "sampled_change_low", "sampled_change_high", "sampled_won", "sampled_lost", "reward", "kl", "entropy",
		"length", "completion_tokens")
	lessons := anyWarmup(c.Runs)
	if lessons {
		t.Header = append(t.Header, rowsHeader()...)
	}
	if times {
		t.Header = append(t.Header, "seconds", "resumed")
	}
	for i, r := range c.Runs {
		row := []any{r.Name, r.Done(), r.last()}
		for _, s := range settings {
			row = append(row, s.Values[i])
		}
		row = append(row, r.scores(c.Step)...)
		row = append(row, c.paired(r)...)
		for _, of := range []func(*Step) float64{reward, kl, entropy, length} {
			row = append(row, r.LateMean(of))
		}
		row = append(row, r.Total(tokens))
		if lessons {
			row = append(row, r.rowCells(c.Step)...)
		}
		if times {
			row = append(row, r.Total(seconds), r.Resumes)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// The quantities of a step that are compared.
func reward(s *Step) float64   { return s.Reward }
func kl(s *Step) float64       { return s.KL }
func klRef(s *Step) float64    { return s.KLRef }
func entropy(s *Step) float64  { return s.Entropy }
func length(s *Step) float64   { return s.Length }
func tokens(s *Step) float64   { return s.Tokens }
func seconds(s *Step) float64  { return s.Seconds }
func gradNorm(s *Step) float64 { return s.GradNorm }

// scores are the cells about an evaluation.
func (r *Run) scores(step int) []any {
	e := r.At(step)
	if e == nil {
		return []any{nil, nil, nan, nan, nan, nan, nil, nan, nan}
	}
	k := any(nil)
	if e.K > 0 {
		k = e.K
	}
	return []any{e.Step, e.Problems, e.Greedy, e.CI[0], e.CI[1], e.PassAt1, k, e.PassAtK, e.BestOfK}
}

// paired are the cells of a run compared with the base.
func (c *Comparison) paired(r *Run) []any {
	out := []any{nil, nil, nan, nan, nan, nil, nil, nan, nan, nan, nil, nil}
	for _, p := range c.Pairs {
		if p.Run != r || p.Refused != "" {
			continue
		}
		out[0] = c.Base.Name
		if p.Greedy != nil {
			out[1] = p.Greedy.Change.Problems
			copy(out[2:], p.Greedy.cells())
		}
		if p.Sampled != nil {
			copy(out[7:], p.Sampled.cells())
		}
	}
	return out
}

func (s *Side) cells() []any {
	return []any{s.Change.Mean, s.Change.CI[0], s.Change.CI[1], len(s.Won), len(s.Lost)}
}

// JSON is the comparison as one object.
func (c *Comparison) JSON() ([]byte, error) {
	type sided struct {
		Problems int        `json:"problems"`
		Change   float64    `json:"change"`
		CI       [2]float64 `json:"ci"`
		Verdict  string     `json:"verdict"`
		Won      []string   `json:"won"`
		Lost     []string   `json:"lost"`
	}
	type paired struct {
		Run     string `json:"run"`
		Against string `json:"against"`
		Refused string `json:"refused,omitempty"`
		Greedy  *sided `json:"greedy"`
		Sampled *sided `json:"sampled"`
	}
	list := func(names []string) []string { return append([]string{}, names...) }
	one := func(s *Side) *sided {
		if s == nil {
			return nil
		}
		d := s.Change
		return &sided{d.Problems, d.Mean, d.CI, d.Verdict(), list(s.Won), list(s.Lost)}
	}
	out := struct {
		Base     string           `json:"base"`
		Notes    []string         `json:"notes"`
		Settings []Setting        `json:"settings"`
		Runs     []map[string]any `json:"runs"`
		Pairs    []paired         `json:"pairs"`
	}{Base: c.Base.Name, Notes: list(c.Notes), Settings: append([]Setting{}, c.Settings...), Runs: c.Table(true).objects()}
	for _, p := range c.Pairs {
		out.Pairs = append(out.Pairs, paired{p.Run.Name, c.Base.Name, p.Refused, one(p.Greedy), one(p.Sampled)})
	}
	return marshal(out)
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return b.Bytes(), err
}

// few reports whether that many problems are too few for conclusions.
func few(n int) bool { return n < stats.MinProblems }
