package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// verdict is a sentence about how the run went, and its evidence.
type verdict struct {
	Tone     string // good, bad or open
	Sentence string
	Detail   string
}

// verdict judges by held-out problems if there are two evaluations, else by rewards.
func (r *run) verdict() verdict {
	if r.warmup() {
		return r.rowsSay()
	}
	evals, others := r.alike()
	switch {
	case len(evals) > 1 || others != "":
		v := r.compare(evals)
		v.Detail = strings.TrimSpace(v.Detail + others)
		return v
	case len(r.steps) == 0 && len(evals) == 0:
		return verdict{Tone: "open", Sentence: "No step is done yet"}
	case len(r.steps) == 0:
		return verdict{Tone: "open", Sentence: "Held-out pass@1 is " + rate(evals[0].Greedy) + " before the first step"}
	}
	v := r.rewardsSay()
	if len(evals) == 1 {
		v.Detail += " The only evaluation, at step " + strconv.Itoa(evals[0].Step) + ", found held-out pass@1 " + rate(evals[0].Greedy) +
			"."
	}
	v.Detail = strings.TrimSpace(v.Detail + " Without a second evaluation on held-out problems, this does not show whether the model learned.")
	return v
}

// alike are the evaluations with a known rate on the same problems as the last one, and a sentence about the others.
func (r *run) alike() (evals []evaluation, others string) {
	known := slices.DeleteFunc(slices.Clone(r.evals), func(e evaluation) bool { return e.Greedy != e.Greedy })
	for _, e := range known {
		if r.outcome(&e).SameProblems(r.outcome(&known[len(known)-1])) {
			evals = append(evals, e)
		}
	}
	if len(evals) < len(known) {
		others = " Earlier evaluations had other held-out problems, and do not compare."
	}
	return evals, others
}

// outcome is the result of an evaluation.
func (r *run) outcome(e *evaluation) stats.Outcome {
	return stats.Outcome{Problems: e.Problems, Judged: r.judged[e.Step]}
}

// compare compares the last evaluation with the first.
func (r *run) compare(evals []evaluation) verdict {
	first, last := evals[0], evals[len(evals)-1]
	pairs := stats.Compare(r.judged[first.Step], r.judged[last.Step])
	change := last.Greedy - first.Greedy
	few := last.Problems > 0 && last.Problems < stats.MinProblems || pairs != nil && pairs.Problems < stats.MinProblems
	v := verdict{Tone: "open", Sentence: "Held-out pass@1 was " + rate(first.Greedy) + ", and is now " + rate(last.Greedy)}
	switch {
	case len(evals) == 1:
		v.Sentence = "Held-out pass@1 is " + rate(last.Greedy) + ", of " + count(last.Problems, "problem")
		return v
	case few:
		v.Sentence += ", but there are too few problems to tell"
	case change > 0:
		v.Sentence = "Held-out pass@1 rose from " + rate(first.Greedy) + " to " + rate(last.Greedy)
	case change < 0:
		v.Sentence = "Held-out pass@1 fell from " + rate(first.Greedy) + " to " + rate(last.Greedy)
	default:
		v.Sentence = "Held-out pass@1 stayed at " + rate(last.Greedy)
	}
	sure := false
	switch {
	case pairs != nil:
		sure = pairs.Sure()
		v.Detail = fmt.Sprintf("Problem by problem, the change is %+.3f, 95 %% interval [%+.3f, %+.3f]: %s.",
			pairs.Mean, pairs.CI[0], pairs.CI[1], pairs.Verdict())
	case few:
		v.Detail = count(last.Problems, "problem") + plural.Pick(last.Problems, " is", " are") + " too few to say."
	case !first.hasInterval() || !last.hasInterval() || change == 0:
	case first.CI[1] < last.CI[0] || last.CI[1] < first.CI[0]:
		sure, v.Detail = true, "The 95 % intervals do not overlap."
	default:
		v.Detail = "The 95 % intervals overlap: this may be chance."
	}
	if sure && change > 0 {
		v.Tone = "good"
	} else if sure && change < 0 {
		v.Tone = "bad"
	} else if change != 0 && !few && v.Detail != "" {
		v.Sentence += ", which may be chance"
	}
	best := slices.MaxFunc(evals, func(a, b evaluation) int { return cmp.Compare(a.Greedy, b.Greedy) })
	if best.Greedy > last.Greedy && best.Step != first.Step {
		v.Detail += " It was best at step " + strconv.Itoa(best.Step) + ", " + rate(best.Greedy) + "."
	}
	v.Detail = strings.TrimSpace(v.Detail)
	return v
}

// rewardsSay compares the rewards of the last tenth of the steps with those of the first.
func (r *run) rewardsSay() verdict {
	rewards := slices.DeleteFunc(r.over(func(s *step) float64 { return s.Reward }), func(v float64) bool { return v != v })
	if len(rewards) == 0 {
		return verdict{Tone: "open", Sentence: count(len(r.steps), "step") + " done; no completion has been scored"}
	}
	if len(rewards) < 4 {
		return verdict{Tone: "open", Sentence: "Mean reward is " + earned(rewards[len(rewards)-1]) + " after " + count(len(r.steps), "step")}
	}
	n := max(len(rewards)/10, 2)
	first, last := stats.Mean(rewards[:n]), stats.Mean(rewards[len(rewards)-n:])
	word := "stayed at"
	switch {
	case last > first:
		word = "rose from " + earned(first) + " to"
	case last < first:
		word = "fell from " + earned(first) + " to"
	}
	return verdict{"open", "Mean reward " + word + " " + earned(last),
		fmt.Sprintf("These are means of the last %s and of the first %d.", count(n, "step"), n)}
}

// total adds up the known values of a quantity over the steps.
func (r *run) total(of func(s *step) float64) float64 {
	total := 0.0
	for i := range r.steps {
		total += zeroIfNaN(of(&r.steps[i]))
	}
	return total
}

// fact is a fact about the run.
type fact struct{ Name, Value, More string }

func (r *run) facts() []fact {
	var out []fact
	add := func(name, value, more string) {
		if value != "" {
			out = append(out, fact{name, display.Visible(value), display.Visible(more)})
		}
	}
	add("model", short(r.settings.Model), r.origin.Backend)
	problems := ""
	if r.origin.Problems > 0 {
		problems = count(r.origin.Problems, r.unit())
		if r.origin.HeldOut > 0 {
			problems += ", " + grouped(int64(r.origin.HeldOut)) + " held out"
		}
	}
	add("data", short(r.settings.Data), problems)
	add("steps", r.progress(), r.shape())
	if total := r.total(func(s *step) float64 { return s.timing.Total }); total > 0 {
		add("time in steps", duration(total), "evaluations not counted")
	}
	if tokens := r.total(func(s *step) float64 { return s.Tokens }); tokens > 0 {
		add("sampled", number(tokens)+" tokens", count(int(r.total(func(s *step) float64 { return s.Completions })), "completion"))
	}
	if t, err := time.Parse(time.RFC3339, r.origin.Created); err == nil {
		add("begun", t.UTC().Format("2006-01-02"), t.UTC().Format("15:04 UTC"))
	}
	return out
}

// short is the last part of a path; the configuration shows all of it.
func short(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Base(path)
	}
	return path
}

func (r *run) progress() string {
	done := 0
	if n := len(r.steps); n > 0 {
		done = r.steps[n-1].Step
	}
	if last := r.lastStep(); last >= max(done, 1) {
		return grouped(int64(done)) + " of " + grouped(int64(last))
	}
	return grouped(int64(done))
}

func (r *run) shape() string {
	if r.warmup() {
		return ""
	}
	if r.settings.Prompts == 0 || r.settings.Samples == 0 {
		return ""
	}
	return count(r.settings.Prompts, "prompt") + " × " + count(r.settings.Samples, "completion") + " each"
}

// outcome is an evaluation in the figure at the top.
type outcome struct {
	When, Value, Interval string
	Low, Width, At        string // percent of the scale
	Color                 string
}

// outcomes are the first and the last evaluation, and the best if it is another.
func (r *run) outcomes() []outcome {
	evals, _ := r.alike()
	if len(evals) == 0 {
		return nil
	}
	row := func(when string, e evaluation, color string) outcome {
		o := outcome{When: fmt.Sprintf("%s, step %d", when, e.Step), Value: rate(e.Greedy), At: percentAt(e.Greedy), Color: color}
		if e.hasInterval() {
			o.Interval = "[" + rate(e.CI[0]) + ", " + rate(e.CI[1]) + "]"
			o.Low, o.Width = percentAt(e.CI[0]), percentAt(e.CI[1]-e.CI[0])
		}
		return o
	}
	if len(evals) == 1 {
		return []outcome{row("so far", evals[0], "c7")}
	}
	first, last := evals[0], evals[len(evals)-1]
	out := []outcome{row("before", first, "c7")}
	best := slices.MaxFunc(evals, func(a, b evaluation) int { return cmp.Compare(a.Greedy, b.Greedy) })
	if best.Greedy > last.Greedy && best.Step != first.Step {
		out = append(out, row("best", best, "c3"))
	}
	return append(out, row("after", last, "c1"))
}

// before is a row of the table of the evaluations' other values.
type before struct{ Name, First, Last string }

func (r *run) beforeAfter() []before {
	evals, _ := r.alike()
	if len(evals) < 2 {
		return nil
	}
	first, last := evals[0], evals[len(evals)-1]
	var out []before
	add := func(name string, a, b float64) {
		if a == a || b == b {
			out = append(out, before{name, rate(a), rate(b)})
		}
	}
	add("pass@1, sampled", first.PassAt1, last.PassAt1)
	if last.K > 1 && first.K == last.K {
		add("pass@"+strconv.Itoa(last.K), first.PassAtK, last.PassAtK)
	}
	add("has a program", first.Format, last.Format)
	return out
}
