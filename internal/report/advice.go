package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/look"
)

// What the page needs to know of the trainer's advice, to tell what still holds.
const (
	// Silence is how many steps a rule is quiet for after it spoke. One that holds speaks again then.
	Silence = 10
	// SlowSandbox speaks once, when steps wait for their scores for more than the share SlowShare.
	SlowSandbox = "sandbox is the bottleneck"
	SlowShare   = 0.3
	// SlowScores speaks in its place where a model judges, too: nobody knows which of the two is waited for.
	SlowScores = "judge or sandbox is the bottleneck"
	// NoSkill is about evaluations.
	NoSkill = "reward without skill"
)

// holds tells whether nothing that came later says that an advice is out of date.
func (r *run) holds(a advice) bool {
	last := 0
	if n := len(r.steps); n > 0 {
		last = r.steps[n-1].Step
	}
	switch {
	case a.Fatal:
		return a.Step >= last
	case a.Rule == NoSkill:
		return !slices.ContainsFunc(r.evals, func(e evaluation) bool { return e.Step >= a.Step+Silence })
	case a.Rule == SlowSandbox, a.Rule == SlowScores:
		total, score := 0.0, 0.0
		for _, s := range r.steps[max(0, len(r.steps)-Silence):] {
			total, score = total+known0(s.timing.Total), score+known0(s.timing.Score)
		}
		return total == 0 || score > SlowShare*total
	}
	return last < a.Step+Silence
}

// rule is an advice with the steps at which it was given.
type rule struct {
	Name, Finding, Try, When string
	Fatal, Holds             bool
	times, first, last       int
}

const mostRules = 20

// rules gathers the advice by rule, the latest first: what holds, and what did once.
func (r *run) rules() (now, once []rule) {
	var out []*rule
	byName := map[string]*rule{}
	for _, a := range r.advice {
		x := byName[a.Rule]
		if x == nil {
			x = &rule{Name: look.Visible(a.Rule), first: a.Step}
			byName[a.Rule] = x
			out = append(out, x)
		}
		x.times++
		x.last, x.Holds = a.Step, r.holds(a)
		x.Fatal = a.Fatal && x.Holds
		x.Finding, x.Try = look.Visible(look.Cut(a.Finding, 500)), look.Visible(look.Cut(a.Try, 500))
	}
	slices.SortStableFunc(out, func(a, b *rule) int { return cmp.Compare(b.last, a.last) })
	for _, x := range out[:min(len(out), mostRules)] {
		x.When = fmt.Sprintf("step %d", x.last)
		if x.times > 1 {
			x.When = fmt.Sprintf("%s times, steps %d to %d; the last", grouped(int64(x.times)), x.first, x.last)
		}
		if x.Holds {
			now = append(now, *x)
		} else {
			once = append(once, *x)
		}
	}
	return now, once
}
