package browser

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/samples"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// visit is one group in the history of a problem.
type visit struct {
	Step, Number int
	Right, Of    int
	Level        int    // its color: 0 none right, 5 all
	Flip         string // up, down or ""
}

// Says describes a visit.
func (v visit) Says() string {
	said := fmt.Sprintf("step %d: %d of %d right", v.Step, v.Right, v.Of)
	switch v.Flip {
	case "up":
		said += ", solved now"
	case "down":
		said += ", not any more"
	}
	return said
}

// problem shows the history of a problem.
func (p *page) problem() {
	name := p.ask.Get("problem")
	var all []samples.Group
	for _, g := range p.view.Groups {
		if p.view.Name(g) == name {
			all = append(all, g)
		}
	}
	p.Title = display.Visible(name)
	if len(all) == 0 {
		p.Nothing = "No completion of a problem with this name is recorded."
		return
	}
	visits, right, of := history(all)
	p.Visits = visits[max(0, len(visits)-mostVisits):]
	p.Detail = fmt.Sprintf("Drawn in %s; %s right over the run.", count(len(all), "group"), share(right, of))
	slices.Reverse(all)
	for _, g := range cut(p, all, "problem", name) {
		p.Groups = append(p.Groups, p.row(g))
	}
	if p.known.Problem != nil {
		if known := p.known.Problem(p.Dir, name); known != nil {
			p.Near = &near{Statement: display.Visible(display.Truncate(known.Statement, mostStatement))}
		}
	}
}

// history lists the visits to a problem.
func history(groups []samples.Group) (visits []visit, right, of int) {
	for _, g := range groups {
		v := visit{Step: int(g.Step), Number: int(g.Number), Right: int(g.Right), Of: int(g.Samples - g.Left)}
		if v.Of == 0 {
			continue
		}
		v.Level = (5*v.Right + v.Of - 1) / v.Of
		if n := len(visits); n > 0 && (visits[n-1].Right > 0) != (v.Right > 0) {
			v.Flip = "up"
			if v.Right == 0 {
				v.Flip = "down"
			}
		}
		visits, right, of = append(visits, v), right+v.Right, of+v.Of
	}
	return visits, right, of
}

// flip is a problem that became solved, or unsolved, from one visit to the next.
type flip struct {
	Up                   bool
	Problem, Name        string
	Step, Number         int
	Before, BeforeNumber int // step and group of the visit before
	Was, Is              string
}

// heldFlip is a held-out problem whose result changed between two evaluations.
type heldFlip struct {
	Up      bool
	Problem string
	From    int
	To      int
}

// flips lists all flips, the latest first.
func (p *page) flips() error {
	want := p.ask.Get("outcome")
	last := make([]*samples.Group, len(p.view.Problems))
	var all []flip
	up, down := 0, 0
	for i := range p.view.Groups {
		g := &p.view.Groups[i]
		if g.Samples == g.Left {
			continue
		}
		if was := last[g.Problem]; was != nil && was.Solved() != g.Solved() {
			if g.Solved() {
				up++
			} else {
				down++
			}
			if want == "" || (want == "up") == g.Solved() {
				all = append(all, flip{Up: g.Solved(), Problem: display.Visible(p.view.Name(*g)), Name: p.view.Name(*g), Step: int(g.Step),
					Number: int(g.Number), Before: int(was.Step), BeforeNumber: int(was.Number),
					Was: fmt.Sprintf("%d of %d", was.Right, was.Samples), Is: fmt.Sprintf("%d of %d", g.Right, g.Samples)})
			}
		}
		last[g.Problem] = g
	}
	slices.Reverse(all)
	p.Flips = cut(p, all, "outcome", want)
	p.Filter.Outcome = want
	p.Filter.Outcomes = []choice{{"", "both ways", want == ""}, {"up", "not → solved", want == "up"}, {"down", "solved → not", want == "down"}}
	if p.Title = count(up+down, "flip"); up+down == 0 {
		p.Title, p.Filter.Outcomes = "No flip in training", nil
		p.Nothing = "No problem flipped between two visits. A problem is solved when any completion of the group is right."
		return p.heldOut(want)
	}
	p.Detail = fmt.Sprintf("Newly solved since the visit before: %s. Solved before, and not any more: %s. "+
		"A problem is solved when any completion of the group is right; with few completions, many flips are chance.",
		count(up, "time"), count(down, "time"))
	if len(all) == 0 {
		p.Nothing = "No problem flipped this way."
	}
	return p.heldOut(want)
}

// heldOut finds the held-out problems that changed between the first evaluation and the last.
func (p *page) heldOut(want string) error {
	judged, err := jsonl.OfKind[stats.Judged](filepath.Join(p.Dir, "evaluations.jsonl"), "")
	if errors.Is(err, fs.ErrNotExist) || badinput.Is(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(judged) < 2 {
		return nil
	}
	first, last := judged[0], judged[len(judged)-1]
	was := map[string]float64{}
	for i, name := range first.Problems[:min(len(first.Problems), len(first.Correct))] {
		was[name] = first.Correct[i]
	}
	for i, name := range last.Problems[:min(len(last.Problems), len(last.Correct))] {
		before, known := was[name]
		if !known || before == last.Correct[i] || want != "" && (want == "up") != (last.Correct[i] > before) {
			continue
		}
		p.HeldOut = append(p.HeldOut, heldFlip{Up: last.Correct[i] > before, Problem: display.Visible(name), From: first.Step, To: last.Step})
	}
	return nil
}
