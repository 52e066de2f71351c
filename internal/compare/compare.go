package compare

import (
	"slices"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// Comparison is several runs compared with the first.
type Comparison struct {
	Runs     []*Run
	Base     *Run
	Step     int // of the evaluations; below 0: the last of each run
	Settings []Setting
	Pairs    []Pair // one for each run but the base, in order
	Notes    []string
}

// Setting is a setting in which the runs differ, with the value of each.
type Setting struct {
	Key    string   `json:"key"`
	Values []string `json:"values"` // in the order of the runs
}

// Pair is a run compared with the base.
type Pair struct {
	Run     *Run
	Refused string // why they cannot be compared problem by problem
	Greedy  *Side  // of the greedy completions; nil if unknown
	Sampled *Side  // of sampled ones
}

// Side is the comparison of two evaluations by one kind of completions.
type Side struct {
	Change *stats.Change
	// Lost are problems that the base solves and the run does not, Won the reverse. For sampled completions, one right one
	// counts as solved.
	Lost, Won []string
}

// New compares runs with runs[base], by their evaluations after a step; below 0: by the last evaluation of each.
func New(runs []*Run, base, step int) (*Comparison, error) {
	c := &Comparison{Runs: runs, Base: runs[base], Step: step, Settings: Differences(runs, places)}
	for _, r := range runs {
		if step >= 0 && r.At(step) == nil && r.HeldOutAt(step) == nil {
			return nil, badinput.Errorf("--step %d: %s has no evaluation after it; it has some after %s", step, r.Name, r.evaluated())
		}
		if r != c.Base {
			c.Pairs = append(c.Pairs, pair(c.Base, r, step))
		}
	}
	c.Notes = c.notes()
	return c, nil
}

// pair compares two runs problem by problem, if they were evaluated on the same ones.
func pair(base, r *Run, step int) Pair {
	p := Pair{Run: r}
	a, b := base.At(step), r.At(step)
	if p.Refused = unpaired(base, r, a, b); p.Refused != "" {
		return p
	}
	p.Greedy = compareHeldOut(a.Judged, b.Judged)
	p.Sampled = compareHeldOut(a.Judged.Sampled.Shares(a.Step), b.Judged.Sampled.Shares(b.Step))
	return p
}

// unpaired says why two evaluations cannot be compared problem by problem. Problems of the same name may differ, so the hash
// of all must be equal.
func unpaired(base, r *Run, a, b *Evaluation) string {
	was, is := base.heldOut(a), r.heldOut(b)
	switch {
	case base.Settings.Warmup() && r.Settings.Warmup():
		return "warm-ups are judged by rows"
	case a == nil && b == nil:
		return "neither was evaluated"
	case a == nil:
		return base.Name + " was not evaluated"
	case b == nil:
		return "it was not evaluated"
	case was == "" || is == "":
		return "the run did not record which held-out problems these are"
	case was != is:
		return "other held-out problems than " + base.Name
	case len(a.Judged.Problems) == 0 || len(b.Judged.Problems) == 0:
		return "the run did not record which problems were right"
	case stats.Compare(a.Judged, b.Judged) == nil:
		return "no held-out problem in common with " + base.Name
	}
	return ""
}

// compareHeldOut compares two evaluations on the problems that they have in common; nil if there are none.
func compareHeldOut(a, b stats.Judged) *Side {
	change := stats.Compare(a, b)
	if change == nil {
		return nil
	}
	s := &Side{Change: change}
	was := map[string]bool{}
	for i, id := range a.Problems[:min(len(a.Problems), len(a.Correct))] {
		was[id] = a.Correct[i] > 0
	}
	for i, id := range b.Problems[:min(len(b.Problems), len(b.Correct))] {
		solved, both := was[id]
		switch {
		case !both:
		case solved && b.Correct[i] == 0:
			s.Lost = append(s.Lost, id)
		case !solved && b.Correct[i] > 0:
			s.Won = append(s.Won, id)
		}
	}
	slices.Sort(s.Lost)
	slices.Sort(s.Won)
	return s
}

// places are settings that say where a run is, or apply to one start only.
var places = []string{"run_dir", "resume", "allow_change", "serve", "serve_keys", "tensorboard", "mlflow", "watch"}

// Differences are the settings in which the runs differ, except without.
func Differences(runs []*Run, without []string) (all []Setting) {
	texts := make([]map[string]string, len(runs))
	for i, r := range runs {
		texts[i] = map[string]string{}
		for _, change := range configs.Changed(runs[0].Settings, r.Settings) {
			texts[i][change.Key] = change.After
			texts[0][change.Key] = change.Before
		}
	}
	for _, f := range configs.Describe() {
		if _, differs := texts[0][f.Key]; !differs || slices.Contains(without, f.Key) {
			continue
		}
		s := Setting{Key: f.Key}
		for i := range runs {
			text, other := texts[i][f.Key]
			if !other {
				text = texts[0][f.Key]
			}
			s.Values = append(s.Values, text)
		}
		all = append(all, s)
	}
	return all
}
