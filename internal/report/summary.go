package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// verdict says in a sentence how the run went, and what the sentence rests on.
type verdict struct {
	Tone     string // good, bad or open
	Sentence string
	Detail   string
}

// verdict judges by held-out problems where there are two evaluations, else by rewards.
func (r *run) verdict() verdict {
	evals := slices.DeleteFunc(slices.Clone(r.evals), func(e evaluation) bool { return e.Greedy != e.Greedy })
	switch {
	case len(evals) > 1:
		return compare(evals)
	case len(r.steps) == 0 && len(evals) == 0:
		return verdict{Tone: "open", Sentence: "No step is done yet"}
	case len(r.steps) == 0:
		return verdict{Tone: "open", Sentence: "Held-out pass@1 is " + rate(evals[0].Greedy) + " before the first step"}
	}
	v := verdict{Tone: "open", Sentence: r.rewardsSay(), Detail: "Without a second evaluation on held-out problems, nobody can say whether that is learning."}
	if len(evals) == 1 {
		v.Detail = "The only evaluation, at step " + strconv.Itoa(evals[0].Step) + ", found held-out pass@1 " + rate(evals[0].Greedy) + ". " + v.Detail
	}
	return v
}

// compare sets the last evaluation against the first.
func compare(evals []evaluation) verdict {
	first, last := evals[0], evals[len(evals)-1]
	v := verdict{Tone: "open", Sentence: "Held-out pass@1 stayed at " + rate(last.Greedy)}
	change := last.Greedy - first.Greedy
	switch {
	case first.Problems != last.Problems:
		v.Sentence = "Held-out pass@1 was " + rate(first.Greedy) + ", and is now " + rate(last.Greedy)
		v.Detail = fmt.Sprintf("The two are of different problems, %d and %d of them: do not compare.", first.Problems, last.Problems)
		return v
	case change > 0:
		v.Sentence = "Held-out pass@1 rose from " + rate(first.Greedy) + " to " + rate(last.Greedy)
	case change < 0:
		v.Sentence = "Held-out pass@1 fell from " + rate(first.Greedy) + " to " + rate(last.Greedy)
	}
	if first.hasInterval() && last.hasInterval() && change != 0 {
		if first.CI[1] < last.CI[0] || last.CI[1] < first.CI[0] {
			v.Detail = "The 95 % intervals do not overlap."
			v.Tone = "good"
			if change < 0 {
				v.Tone = "bad"
			}
		} else {
			v.Detail = "The 95 % intervals overlap: this may be chance."
		}
	}
	best := slices.MaxFunc(evals, func(a, b evaluation) int { return cmp.Compare(a.Greedy, b.Greedy) })
	if best.Greedy > last.Greedy && best.Step != first.Step {
		v.Detail += " It was best at step " + strconv.Itoa(best.Step) + ", " + rate(best.Greedy) + "."
	}
	v.Detail = strings.TrimSpace(v.Detail)
	return v
}

// rewardsSay compares the rewards of the first tenth of the steps with those of the last.
func (r *run) rewardsSay() string {
	rewards := slices.DeleteFunc(r.over(func(s *step) float64 { return s.Reward }), func(v float64) bool { return v != v })
	if len(rewards) == 0 {
		return count(len(r.steps), "step") + " done; no completion has been scored"
	}
	if len(rewards) < 4 {
		return "Mean reward is " + rate(rewards[len(rewards)-1]) + " after " + count(len(r.steps), "step")
	}
	n := max(len(rewards)/10, 2)
	first, last := mean(rewards[:n]), mean(rewards[len(rewards)-n:])
	word := "stayed at"
	switch {
	case last > first:
		word = "rose from " + rate(first) + " to"
	case last < first:
		word = "fell from " + rate(first) + " to"
	}
	return fmt.Sprintf("Mean reward %s %s, first %d steps against last %d", word, rate(last), n, n)
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func sum(x []float64) float64 {
	total := 0.0
	for _, v := range x {
		total += known0(v)
	}
	return total
}

// fact is a thing that one wants to know about the run.
type fact struct{ Name, Value, More string }

func (r *run) facts() []fact {
	var out []fact
	add := func(name, value, more string) {
		if value != "" {
			out = append(out, fact{name, visible(value), visible(more)})
		}
	}
	add("model", r.settings.Model, "")
	problems := ""
	if r.origin.Problems > 0 {
		problems = count(r.origin.Problems, "problem")
		if r.origin.HeldOut > 0 {
			problems += ", " + grouped(int64(r.origin.HeldOut)) + " held out"
		}
	}
	add("data", r.settings.Data, problems)
	add("steps", r.progress(), r.shape())
	if total := sum(r.over(func(s *step) float64 { return s.timing.Total })); total > 0 {
		add("time in steps", duration(total), "evaluations not counted")
	}
	if tokens := sum(r.over(func(s *step) float64 { return s.Tokens })); tokens > 0 {
		add("sampled", number(tokens)+" tokens", count(int(sum(r.over(func(s *step) float64 { return s.Completions }))), "completion"))
	}
	add("begun", r.begun(), r.origin.Backend)
	return out
}

func (r *run) begun() string {
	if t, err := time.Parse(time.RFC3339, r.origin.Created); err == nil {
		return t.UTC().Format("2006-01-02 15:04 UTC")
	}
	return r.origin.Created
}

func (r *run) progress() string {
	done := 0
	if n := len(r.steps); n > 0 {
		done = r.steps[n-1].Step
	}
	if r.settings.MaxSteps > 0 {
		return grouped(int64(done)) + " of " + grouped(int64(r.settings.MaxSteps))
	}
	return grouped(int64(done))
}

func (r *run) shape() string {
	if r.settings.Prompts == 0 || r.settings.Samples == 0 {
		return ""
	}
	return fmt.Sprintf("%d prompts × %d completions each", r.settings.Prompts, r.settings.Samples)
}

// outcome is an evaluation as a row of the figure at the top.
type outcome struct {
	When, Value, Interval string
	Low, Width, At        string // percent of the scale
	Color                 string
}

// outcomes are the first and the last evaluation, and the best where it is another.
func (r *run) outcomes() []outcome {
	evals := slices.DeleteFunc(slices.Clone(r.evals), func(e evaluation) bool { return e.Greedy != e.Greedy })
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

// before is a row of the table of what else the evaluations measured.
type before struct{ Name, First, Last string }

func (r *run) beforeAfter() []before {
	if len(r.evals) < 2 {
		return nil
	}
	first, last := r.evals[0], r.evals[len(r.evals)-1]
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

// check is a line that says whether something is in order.
type check struct {
	Tone string // good, bad or open
	Text string
}

// checks are the promises and the losses of the run.
func (r *run) checks() []check {
	var out []check
	for _, c := range []func() (check, bool){r.fatal, r.onPolicy, r.scored, r.taught, r.cutOff, r.updates} {
		if line, says := c(); says {
			out = append(out, line)
		}
	}
	return out
}

func (r *run) fatal() (check, bool) {
	for _, a := range r.advice {
		if a.Fatal {
			return check{"bad", fmt.Sprintf("The run was stopped at step %d: %s. Try: %s", a.Step, visible(a.Finding), visible(a.Try))}, true
		}
	}
	return check{}, false
}

// onPolicy holds the run to its promise: what the trainer computes is what the sampler drew from.
func (r *run) onPolicy() (check, bool) {
	measured, broken, most, at := 0, 0, 0.0, 0
	for _, s := range r.steps {
		if s.OnPolicy != s.OnPolicy {
			continue
		}
		measured++
		if s.OnPolicy != 0 {
			broken++
		}
		if a := math.Abs(s.OnPolicy); a > most {
			most, at = a, s.Step
		}
	}
	switch {
	case measured == 0:
		return check{}, false
	case broken == 0:
		return check{"good", fmt.Sprintf("max|Δlogp| on policy was exactly 0 at all %s: trainer and sampler agree to the bit", count(measured, "update"))}, true
	}
	return check{"bad", fmt.Sprintf("max|Δlogp| on policy, promised to be 0, was not at %d of %s: up to %s, at step %d", broken, count(measured, "update"), number(most), at)}, true
}

func (r *run) scored() (check, bool) {
	all, failed := sum(r.over(func(s *step) float64 { return s.Completions })), sum(r.over(func(s *step) float64 { return s.RewardErrors }))
	switch {
	case all == 0:
		return check{}, false
	case failed == 0:
		return check{"good", "The sandbox failed on none of " + count(int(all), "completion")}, true
	}
	return check{"bad", fmt.Sprintf("%s of %s could not be scored: the sandbox failed (grpo doctor)", grouped(int64(failed)), count(int(all), "completion"))}, true
}

func (r *run) taught() (check, bool) {
	groups, skipped := sum(r.over(func(s *step) float64 { return s.Groups })), sum(r.over(func(s *step) float64 { return s.Skipped }))
	if groups == 0 {
		return check{}, false
	}
	c := check{"open", fmt.Sprintf("%s of %s taught nothing, %s", grouped(int64(skipped)), count(int(groups), "group"), percent(skipped/groups))}
	if tokens, wasted := sum(r.over(func(s *step) float64 { return s.Tokens })), sum(r.over(func(s *step) float64 { return s.Wasted })); wasted > 0 && tokens > 0 {
		c.Text += fmt.Sprintf("; %s of the sampled tokens went there", percent(wasted/tokens))
	}
	if skipped > groups/2 {
		c.Tone = "bad"
	}
	return c, true
}

func (r *run) cutOff() (check, bool) {
	all, cut := 0.0, 0.0
	for _, s := range r.steps {
		if s.Truncated == s.Truncated && s.Completions > 0 {
			all, cut = all+s.Completions, cut+math.Round(s.Truncated*s.Completions)
		}
	}
	switch {
	case all == 0:
		return check{}, false
	case cut == 0:
		return check{"good", "No completion was cut off at max_tokens"}, true
	}
	c := check{"open", fmt.Sprintf("%s of %s cut off at max_tokens, %s", grouped(int64(cut)), count(int(all), "completion"), percent(cut/all))}
	if cut > all/4 {
		c.Tone = "bad"
	}
	return c, true
}

func (r *run) updates() (check, bool) {
	without := 0
	for _, s := range r.steps {
		if s.Updated != nil && !*s.Updated {
			without++
		}
	}
	if without == 0 {
		return check{}, false
	}
	return check{"open", fmt.Sprintf("%d of %s changed nothing: no group had anything to teach, or the gradient was not finite", without, count(len(r.steps), "step"))}, true
}

// rule is an advice with the steps at which it was given.
type rule struct {
	Name, Finding, Try, When string
	Fatal                    bool
	times, first, last       int
}

const mostRules = 20

// rules gathers the advice by rule, the latest first.
func (r *run) rules() []rule {
	var out []*rule
	byName := map[string]*rule{}
	for _, a := range r.advice {
		x := byName[a.Rule]
		if x == nil {
			x = &rule{Name: visible(a.Rule), first: a.Step}
			byName[a.Rule] = x
			out = append(out, x)
		}
		x.times++
		x.last, x.Fatal = a.Step, x.Fatal || a.Fatal
		x.Finding, x.Try = visible(cut(a.Finding, 500)), visible(cut(a.Try, 500))
	}
	slices.SortStableFunc(out, func(a, b *rule) int { return cmp.Compare(b.last, a.last) })
	rules := make([]rule, 0, mostRules)
	for _, x := range out[:min(len(out), mostRules)] {
		x.When = fmt.Sprintf("step %d", x.last)
		if x.times > 1 {
			x.When = fmt.Sprintf("%s times, steps %d to %d; the last", grouped(int64(x.times)), x.first, x.last)
		}
		rules = append(rules, *x)
	}
	return rules
}
