package compare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/report"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// Summary groups runs by all of their settings except the seed, and by the files that these name.
type Summary struct {
	Groups []Group
	Notes  []string
}

// Group is a group of runs that differ only in their seeds.
type Group struct {
	Name    string // the settings in which groups differ, and files if these do not suffice; "all runs" if there is one group
	Runs    []*Run
	Figures []Figure
}

// Figure is a measurement of each run of a group.
type Figure struct {
	Name   string
	At     string // a step, or end
	Values []float64
}

// unrelatedKeys are further settings that do not affect results.
var unrelatedKeys = append([]string{"seed", "threads", "sandbox_slots", "judge_slots", "cache_memory", "max_sequences", "token_budget",
	"speculate", "recompute", "save_every", "keep_last", "keep_best", "record_rollouts", "compress_rollouts", "cache_dataset"}, places...)

// Summarize groups runs and collects their figures.
func Summarize(runs []*Run) *Summary {
	s := &Summary{}
	keys := []string{}
	for _, r := range runs {
		s.Notes = append(s.Notes, r.notes()...)
		key := r.kind()
		at := slices.Index(keys, key)
		if at < 0 {
			at = len(keys)
			keys, s.Groups = append(keys, key), append(s.Groups, Group{})
		}
		s.Groups[at].Runs = append(s.Groups[at].Runs, r)
	}
	firsts := make([]*Run, len(s.Groups))
	for i, g := range s.Groups {
		firsts[i] = g.Runs[0]
	}
	differing := Differences(firsts, unrelatedKeys)
	for i := range s.Groups {
		s.Groups[i].name(i, differing, len(s.Groups))
	}
	s.tellApart()
	for i := range s.Groups {
		g := &s.Groups[i]
		g.gather()
		s.Notes = append(s.Notes, g.notes()...)
	}
	return s
}

// kind is a key that the runs of one group share.
func (r *Run) kind() string {
	settings := map[string]any{}
	for _, f := range configs.Describe() {
		if !slices.Contains(unrelatedKeys, f.Key) {
			settings[f.Key] = r.Settings.Setting(f.Key)
		}
	}
	text, err := json.Marshal([]any{settings, r.hashes()})
	if err != nil {
		return r.Dir // a setting that is not a number equals no other
	}
	return string(text)
}

// hashes are those of the run's files, by setting. Parts of a Go program have none, so such a run equals no other.
func (r *Run) hashes() map[string]string {
	all := map[string]string{}
	for key, part := range r.Parts {
		all[key] = part.SHA256
	}
	for _, part := range r.Own {
		all[part] = "own"
	}
	return all
}

func (g *Group) name(i int, differing []Setting, groups int) {
	if groups == 1 {
		g.Name = "all runs"
		return
	}
	var words []string
	for _, s := range differing {
		words = append(words, s.Key+"="+s.Values[i])
	}
	g.Name = strings.Join(words, " ")
}

// tellApart makes equal names of groups unique by the files in which they differ, with the beginnings of their hashes.
func (s *Summary) tellApart() {
	alike := map[string][]*Group{}
	for i := range s.Groups {
		g := &s.Groups[i]
		alike[g.Name] = append(alike[g.Name], g)
	}
	for _, groups := range alike {
		parts := map[string]map[string]bool{} // hashes
		for _, g := range groups {
			for part := range g.Runs[0].hashes() {
				parts[part] = map[string]bool{}
			}
		}
		for _, part := range slices.Sorted(maps.Keys(parts)) {
			for _, g := range groups {
				parts[part][g.Runs[0].hashes()[part]] = true
			}
			if len(parts[part]) < 2 {
				continue
			}
			for _, g := range groups {
				hash := cmp.Or(g.Runs[0].hashes()[part], "none")
				g.Name = strings.TrimSpace(g.Name + " " + part + "@" + hash[:min(8, len(hash))])
			}
		}
	}
}

// short is the name, shortened to fit into a line.
func (g *Group) short() string {
	words := strings.Fields(g.Name)
	for i := range words {
		words[i] = cut(words[i], columns-20)
	}
	return strings.Join(words, " ")
}

// notes tell of runs that are not independent, and of figures that some runs lack.
func (g *Group) notes() (notes []string) {
	seen := map[uint64]string{}
	for _, r := range g.Runs {
		if other, twice := seen[r.Settings.Seed]; twice {
			notes = append(notes, fmt.Sprintf("%s and %s have the same seed and settings: they are the same run twice", other, r.Name))
		}
		seen[r.Settings.Seed] = r.Name
	}
	if slices.ContainsFunc(g.Runs, func(r *Run) bool { return r.HeldOut != nil && !sameRows(g.Runs[0], r) }) {
		notes = append(notes, fmt.Sprintf("%s: each seed holds out other rows, which also changes losses; %s", g.short(), holdTheSame))
	}
	if own := g.Runs[0].Own; len(own) > 0 && len(g.Runs) > 1 {
		notes = append(notes, fmt.Sprintf("%s: the %s of these runs came with a Go program, and whether it was the same in all of them is not "+
			"on record; leave out those of another", g.short(), strings.Join(own, ", ")))
	}
	if len(g.Runs) == 1 {
		notes = append(notes, fmt.Sprintf("%s: one run has no standard deviation", g.short()))
	}
	return notes
}

// gather collects the figures: those of each evaluation, then those of the end.
func (g *Group) gather() {
	var steps []int
	for _, r := range g.Runs {
		for _, e := range r.Evaluations {
			if !slices.Contains(steps, e.Step) {
				steps = append(steps, e.Step)
			}
		}
		for _, h := range r.HeldOut {
			if !slices.Contains(steps, h.Step) {
				steps = append(steps, h.Step)
			}
		}
	}
	slices.Sort(steps)
	for _, step := range append(steps, -1) {
		at := fmt.Sprint(step)
		if step < 0 {
			at = "end"
		}
		for _, f := range []struct {
			name string
			of   func(e *Evaluation) float64
		}{
			{"pass@1_greedy", func(e *Evaluation) float64 { return e.Greedy }},
			{"pass@1_sampled", func(e *Evaluation) float64 { return e.PassAt1 }},
			{"pass@k", func(e *Evaluation) float64 { return e.PassAtK }},
			{"best_of_k", func(e *Evaluation) float64 { return e.BestOfK }},
		} {
			g.add(f.name, at, func(r *Run) float64 {
				if e := r.At(step); e != nil {
					return f.of(e)
				}
				return nan
			})
		}
		for _, f := range heldFigures {
			g.add(f.name, at, func(r *Run) float64 {
				if h := r.HeldOutAt(step); h != nil {
					return f.of(h)
				}
				return nan
			})
		}
	}
	for _, f := range []struct {
		name string
		of   func(r *Run) float64
	}{
		{"train_loss", (*Run).lateLoss},
		{"reward", func(r *Run) float64 { return r.LateMean(reward) }},
		{"kl", func(r *Run) float64 { return r.LateMean(kl) }},
		{"entropy", func(r *Run) float64 { return r.LateMean(entropy) }},
		{"length", func(r *Run) float64 { return r.LateMean(length) }},
		{"completion_tokens", func(r *Run) float64 { return r.Total(tokens) }},
		{"seconds", func(r *Run) float64 { return r.Total(seconds) }},
	} {
		g.add(f.name, "end", f.of)
	}
}

// add adds a figure, if some run has it.
func (g *Group) add(name, at string, of func(r *Run) float64) {
	f := Figure{Name: name, At: at}
	for _, r := range g.Runs {
		if v := of(r); v == v {
			f.Values = append(f.Values, v)
		}
	}
	if len(f.Values) > 0 {
		g.Figures = append(g.Figures, f)
	}
}

// Mean is the mean over the runs.
func (f Figure) Mean() float64 { return stats.Mean(f.Values) }

// Deviation is the sample standard deviation; NaN of one run.
func (f Figure) Deviation() float64 {
	if len(f.Values) < 2 {
		return nan
	}
	mean, squares := f.Mean(), 0.0
	for _, v := range f.Values {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares / float64(len(f.Values)-1))
}

// Error is the standard error of the mean.
func (f Figure) Error() float64 { return f.Deviation() / math.Sqrt(float64(len(f.Values))) }

// Table has a row for each figure of each group.
func (s *Summary) Table() *Table {
	t := &Table{Header: []string{"settings", "at", "figure", "runs", "mean", "deviation", "standard_error", "min", "max"}}
	for _, g := range s.Groups {
		for _, f := range g.Figures {
			t.Rows = append(t.Rows, []any{g.Name, f.At, f.Name, len(f.Values), f.Mean(), f.Deviation(), f.Error(), slices.Min(f.Values),
				slices.Max(f.Values)})
		}
	}
	return t
}

// JSON is the summary as one object.
func (s *Summary) JSON() ([]byte, error) {
	type group struct {
		Settings string           `json:"settings"`
		Runs     []string         `json:"runs"`
		Seeds    []uint64         `json:"seeds"`
		Figures  []map[string]any `json:"figures"`
	}
	out := struct {
		Notes  []string `json:"notes"`
		Groups []group  `json:"groups"`
	}{Notes: append([]string{}, s.Notes...)}
	all := s.Table().objects()
	for _, g := range s.Groups {
		one := group{Settings: g.Name, Figures: all[:len(g.Figures)]}
		all = all[len(g.Figures):]
		for _, r := range g.Runs {
			one.Runs, one.Seeds = append(one.Runs, r.Dir), append(one.Seeds, r.Settings.Seed)
		}
		for _, f := range one.Figures {
			delete(f, "settings")
		}
		out.Groups = append(out.Groups, one)
	}
	return marshal(out)
}

// Text is the summary for a terminal of 80 columns.
func (s *Summary) Text() string {
	var b strings.Builder
	for _, note := range s.Notes {
		b.WriteString(wrap("! ", note))
	}
	for i, g := range s.Groups {
		if i > 0 || len(s.Notes) > 0 {
			b.WriteByte('\n')
		}
		seeds := make([]string, len(g.Runs))
		for k, r := range g.Runs {
			seeds[k] = fmt.Sprint(r.Settings.Seed)
		}
		b.WriteString(wrap("", fmt.Sprintf("%s: %s, seeds %s", g.short(), report.Count(len(g.Runs), "run"), strings.Join(seeds, ", "))))
		t := grid{head: []string{"figure", "at", "runs", "mean", "deviation", "error", "least", "most"}}
		for _, f := range g.Figures {
			t.add([]string{f.Name, f.At, fmt.Sprint(len(f.Values)), f.show(f.Mean()), f.show(f.Deviation()), f.show(f.Error()),
				f.show(slices.Min(f.Values)), f.show(slices.Max(f.Values))})
		}
		t.print(&b)
	}
	return display.Visible(b.String())
}

// show formats a value of the figure: shares with three digits.
func (f Figure) show(v float64) string {
	switch f.Name {
	case "pass@1_greedy", "pass@1_sampled", "pass@k", "held_out_accuracy":
		return rate(v)
	case "best_of_k", "reward":
		return display.Reward(v)
	}
	return rounded(v)
}
