package browser

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/samples"
)

const (
	mostRows   = 100 // on a page
	mostVisits = 400
)

// pages are links to the other pages of a long list.
type pages struct {
	From, To, All  int
	Earlier, Later string // URLs; "" if there is none
}

// cut returns the page of a list that was asked for.
func cut[T any](p *page, all []T, rest ...any) []T {
	from := max(0, min(p.number("from", 0), len(all)-1))
	to := min(len(all), from+mostRows)
	p.Pages = pages{From: from + 1, To: to, All: len(all)}
	if from > 0 {
		p.Pages.Earlier = p.Address(p.View, append(rest, "from", max(0, from-mostRows))...)
	}
	if to < len(all) {
		p.Pages.Later = p.Address(p.View, append(rest, "from", to)...)
	}
	if len(all) == 0 {
		p.Pages = pages{}
		return nil
	}
	return all[from:to]
}

// row is a step in the list of steps.
type row struct {
	Step, Groups, Mixed, Samples, Right int
	Share                               float64
	Verdicts                            []chip
}

// chip is a colored verdict.
type chip struct{ Name, Color string }

func chips(v samples.Verdicts) (all []chip) {
	for _, name := range v.Names() {
		all = append(all, chipOf(name))
	}
	return all
}

func chipOf(name string) chip {
	c := chip{display.Visible(name), display.VerdictColor(name)}
	if name == "" {
		c.Name = "not run"
	}
	return c
}

// Width is the width of a bar, in percent.
func (r row) Width() string { return strconv.FormatFloat(100*r.Share, 'f', 1, 64) }

// Rate is the share in digits.
func (r row) Rate() string { return share(r.Right, r.Samples) }

func share(right, of int) string {
	if of == 0 {
		return "–"
	}
	return strconv.FormatFloat(float64(right)/float64(of), 'f', 3, 64)
}

// steps lists the steps, the latest first.
func (p *page) steps() {
	steps, first := p.view.Steps()
	order := make([]int, len(steps))
	for i := range order {
		order[i] = len(steps) - 1 - i
	}
	for _, i := range cut(p, order) {
		end := len(p.view.Groups)
		if i+1 < len(first) {
			end = first[i+1]
		}
		r, verdicts := row{Step: steps[i]}, samples.Verdicts(0)
		for _, g := range p.view.Groups[first[i]:end] {
			r.Groups++
			r.Samples += int(g.Samples - g.Left)
			r.Right += int(g.Right)
			verdicts |= g.Verdicts
			if g.Mixed() {
				r.Mixed++
			}
		}
		r.Share, r.Verdicts = float64(r.Right)/float64(max(r.Samples, 1)), chips(verdicts)
		p.Rows = append(p.Rows, r)
	}
	total := 0
	for _, g := range p.view.Groups {
		total += int(g.Samples)
	}
	p.Title = count(total, "completion") + " of " + count(len(steps), "step")
	p.Detail = "Of " + count(len(p.view.Problems), "problem") + ", in " + count(len(p.view.Groups), "group") + "."
}

// groupRow is a group in a list.
type groupRow struct {
	Step, Number   int
	Problem        string
	Name           string // of the problem, unescaped
	Outcome        string
	Mixed          bool
	Verdicts       []chip
	Best, Worst    string
	Tokens, Excess int
}

func (p *page) row(g samples.Group) groupRow {
	name := p.view.Name(g)
	r := groupRow{Step: int(g.Step), Number: int(g.Number), Problem: display.Visible(name), Name: name, Mixed: g.Mixed(),
		Outcome: fmt.Sprintf("%d of %d", g.Right, g.Samples), Verdicts: chips(g.Verdicts), Best: reward(g.Best), Worst: reward(g.Worst),
		Tokens: int(math.Round(float64(g.Tokens) / float64(max(g.Samples, 1)))), Excess: int(g.Left)}
	return r
}

func reward(v float32) string {
	if v != v {
		return "none"
	}
	return display.Number(float64(v))
}

// filter restricts a list of groups.
type filter struct {
	Step, Problem, Verdict, Outcome string
	Verdicts, Outcomes              []choice
	Steps                           string // the steps that exist
}

type choice struct {
	Value, Name string
	Chosen      bool
}

var outcomes = []choice{{Value: "", Name: "any"}, {Value: "mixed", Name: "some right, some wrong"}, {Value: "all", Name: "all right"},
	{Value: "none", Name: "none right"}, {Value: "left", Name: "some left out"}}

// filtered reads the filter of a request, and returns its predicate.
func (p *page) filtered() (f filter, takes func(samples.Group) bool) {
	f = filter{Step: p.ask.Get("step"), Problem: p.ask.Get("problem"), Verdict: p.ask.Get("verdict"), Outcome: p.ask.Get("outcome")}
	f.Verdicts = append(f.Verdicts, choice{"", "any", f.Verdict == ""})
	for _, name := range samples.KnownVerdicts[1 : len(samples.KnownVerdicts)-1] {
		f.Verdicts = append(f.Verdicts, choice{name, name, f.Verdict == name})
	}
	f.Verdicts = append(f.Verdicts, choice{"none", "not run", f.Verdict == "none"})
	for _, o := range outcomes {
		o.Chosen = o.Value == f.Outcome
		f.Outcomes = append(f.Outcomes, o)
	}
	named := make([]bool, len(p.view.Problems))
	for i, name := range p.view.Problems {
		named[i] = strings.Contains(strings.ToLower(name), strings.ToLower(f.Problem))
	}
	verdict := f.Verdict
	if verdict == "none" {
		verdict = ""
	}
	return f, func(g samples.Group) bool {
		switch {
		case !named[g.Problem], f.Verdict != "" && !g.Verdicts.Has(verdict):
			return false
		case f.Outcome == "mixed":
			return g.Mixed()
		case f.Outcome == "all":
			return g.Right > 0 && g.Right == g.Samples-g.Left
		case f.Outcome == "none":
			return g.Right == 0
		case f.Outcome == "left":
			return g.Left > 0
		}
		return true
	}
}

// groups lists the groups that the filter accepts.
func (p *page) groups() {
	f, takes := p.filtered()
	all := p.view.Groups
	p.Title = "Groups"
	if step, err := strconv.Atoi(f.Step); err == nil {
		all = p.view.Step(step)
		p.Title = "Step " + strconv.Itoa(step)
		if len(all) == 0 {
			p.Nothing = "No completion of this step is recorded" + p.nearest(step)
		}
	}
	var taken []samples.Group
	for _, g := range all {
		if takes(g) {
			taken = append(taken, g)
		}
	}
	for _, g := range cut(p, taken, "step", f.Step, "problem", f.Problem, "verdict", f.Verdict, "outcome", f.Outcome) {
		p.Groups = append(p.Groups, p.row(g))
	}
	if p.Filter = f; p.Nothing == "" {
		p.Detail = count(len(taken), "group")
		if len(taken) < len(all) {
			p.Detail += " of " + strconv.Itoa(len(all))
		}
		p.Detail += "."
	}
}

// nearest names the steps around one without completions.
func (p *page) nearest(step int) string {
	steps, _ := p.view.Steps()
	i, _ := slices.BinarySearch(steps, step)
	var around []string
	if i > 0 {
		around = append(around, strconv.Itoa(steps[i-1]))
	}
	if i < len(steps) {
		around = append(around, strconv.Itoa(steps[i]))
	}
	return "; the nearest: " + strings.Join(around, " and ") + "."
}

// problemRow is a problem in a list.
type problemRow struct {
	Problem, Name          string
	Groups, Samples, Right int
	FirstRight, FirstOf    int // at its first visit
	LastRight, LastOf      int
	Up, Down               int // flips
	LastStep               int
	solved                 bool
	seen                   bool
}

// Rate is the share of completions that were right.
func (r problemRow) Rate() string { return share(r.Right, r.Samples) }

// First and Last are the shares at the first visit and at the last.
func (r problemRow) First() string { return share(r.FirstRight, r.FirstOf) }

// Last is the share at the last visit.
func (r problemRow) Last() string { return share(r.LastRight, r.LastOf) }

// tally collects the groups by problem.
func (p *page) tally() []problemRow {
	all := make([]problemRow, len(p.view.Problems))
	for _, g := range p.view.Groups {
		r, of := &all[g.Problem], int(g.Samples-g.Left)
		if of == 0 {
			continue
		}
		r.Groups++
		r.Samples, r.Right = r.Samples+of, r.Right+int(g.Right)
		if !r.seen {
			r.FirstRight, r.FirstOf = int(g.Right), of
		} else if g.Solved() != r.solved {
			if r.solved {
				r.Down++
			} else {
				r.Up++
			}
		}
		r.seen, r.solved, r.LastRight, r.LastOf, r.LastStep = true, g.Solved(), int(g.Right), of, int(g.Step)
	}
	for i := range all {
		all[i].Name, all[i].Problem = p.view.Problems[i], display.Visible(p.view.Problems[i])
	}
	return all
}

// problems lists the problems, the least solved first.
func (p *page) problems() {
	f, _ := p.filtered()
	f.Outcomes = []choice{{"", "any", f.Outcome == ""}, {"never", "never solved", f.Outcome == "never"},
		{"always", "always solved", f.Outcome == "always"}, {"up", "solved later", f.Outcome == "up"}, {"down", "lost", f.Outcome == "down"}}
	var taken []problemRow
	for _, r := range p.tally() {
		ok := strings.Contains(strings.ToLower(r.Name), strings.ToLower(f.Problem))
		switch f.Outcome {
		case "never":
			ok = ok && r.Right == 0
		case "always":
			ok = ok && r.Up+r.Down == 0 && r.Right > 0
		case "up":
			ok = ok && r.Up > 0
		case "down":
			ok = ok && r.Down > 0
		}
		if ok {
			taken = append(taken, r)
		}
	}
	slices.SortStableFunc(taken, func(a, b problemRow) int {
		return cmp.Compare(a.Right*max(b.Samples, 1), b.Right*max(a.Samples, 1))
	})
	p.Problems = cut(p, taken, "problem", f.Problem, "outcome", f.Outcome)
	p.Filter, p.Title = f, count(len(taken), "problem")
	p.Detail = "The least solved come first. A problem is solved at a visit when any of its completions is right."
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text + " " + what + "s"
}
