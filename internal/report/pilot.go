package report

import (
	"fmt"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/display"
)

// deed is a line of autopilot.jsonl: a decision after a step.
type deed struct {
	Step    int        `json:"step"`
	Did     string     `json:"did"`
	To      *int       `json:"to"`
	Rule    string     `json:"rule"`
	Why     string     `json:"why"`
	Setting string     `json:"setting"`
	Before  float64    `json:"before"`
	After   float64    `json:"after"`
	Score   *float64   `json:"score"`
	Change  *float64   `json:"change"`
	CI      []float64  `json:"ci"`
	Undone  []undoneBy `json:"undone"`
}

type undoneBy struct {
	Step   int     `json:"step"`
	Reward float64 `json:"reward"`
}

const mostDeeds = 200

func (r *run) readDeeds(dir string) error {
	return r.eachLine(dir, "autopilot.jsonl", func(line []byte) bool {
		var d deed
		ok := understand(line, &d) && d.Did != ""
		if ok {
			r.deeds = append(r.deeds, d)
		}
		return ok
	})
}

// shownDeed is a deed on the page.
type shownDeed struct{ When, What, Why string }

// piloted are the deeds in words, the latest first.
func (r *run) piloted() (out []shownDeed) {
	for _, d := range slices.Backward(r.deeds[max(0, len(r.deeds)-mostDeeds):]) {
		x := shownDeed{When: fmt.Sprintf("step %d", d.Step), Why: display.Visible(display.Truncate(d.Rule+": "+d.Why, 500))}
		setting := display.Visible(display.Truncate(fmt.Sprintf("%s %s → %s", d.Setting, exact(d.Before), exact(d.After)), 100))
		switch d.Did {
		case "tries":
			x.What = "tried " + setting
		case "keeps":
			x.What = "kept " + setting
		case "goes back":
			x.What = "went back"
			if d.To != nil {
				x.What = fmt.Sprintf("went back to step %d, %s undone; ", *d.To, count(len(d.Undone), "step")) + setting
			}
		default:
			x.What = display.Visible(display.Truncate(d.Did, 100))
		}
		if d.Score != nil {
			x.Why += "; score " + rate(*d.Score)
			if d.Change != nil && len(d.CI) == 2 {
				x.Why += fmt.Sprintf(", %+.3f [%+.3f, %+.3f]", *d.Change, d.CI[0], d.CI[1])
			}
		}
		out = append(out, x)
	}
	return out
}

// undone are the rewards of steps that were discarded by a rollback, each as it was the last time; none if there were no rollbacks.
func (r *run) undone() []series {
	at, any := map[int]float64{}, false
	for _, d := range r.deeds {
		for _, u := range d.Undone {
			at[u.Step] = u.Reward
		}
	}
	values := r.over(func(s *step) float64 {
		v, was := at[s.Step]
		if any = any || was; !was {
			return nan
		}
		return v
	})
	if !any {
		return nil
	}
	return []series{{name: "undone", color: "c7", format: rate, values: values}}
}
