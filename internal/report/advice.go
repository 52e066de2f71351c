package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/display"
)

// What the page needs to know of the advisor, to tell which advice still holds.
const (
	// AdviceInterval is for how many steps a rule is silent after it spoke. If it still applies, it speaks again then.
	AdviceInterval = 10
	// SlowSandbox is given once, if steps wait for scores for more than the share SlowShare of their time.
	SlowSandbox = "sandbox is the bottleneck"
	SlowShare   = 0.3
	// SlowScores takes its place if a model judges too, as then either may be the cause.
	SlowScores = "judge or sandbox is the bottleneck"
	// NoSkill is the rule about evaluations.
	NoSkill = "reward without skill"
)

// holds reports whether nothing since contradicts an advice.
func (r *run) holds(a advice) bool {
	last := 0
	if n := len(r.steps); n > 0 {
		last = r.steps[n-1].Step
	}
	switch {
	case a.Fatal:
		return a.Step >= last
	case a.Rule == NoSkill:
		return !slices.ContainsFunc(r.evals, func(e evaluation) bool { return e.Step >= a.Step+AdviceInterval })
	case a.Rule == SlowSandbox, a.Rule == SlowScores:
		total, score := 0.0, 0.0
		for _, s := range r.steps[max(0, len(r.steps)-AdviceInterval):] {
			total, score = total+zeroIfNaN(s.timing.Total), score+zeroIfNaN(s.timing.Score)
		}
		return total == 0 || score > SlowShare*total
	}
	return last < a.Step+AdviceInterval
}

// rule is an advice with the steps at which it was given.
type rule struct {
	Name, Finding, Try, When string
	Fatal, Holds             bool
	times, first, last       int
}

const mostRules = 20

// rules groups the advice by rule, the latest first: what holds now, and what held once.
func (r *run) rules() (now, once []rule) {
	var out []*rule
	byName := map[string]*rule{}
	for _, a := range r.advice {
		x := byName[a.Rule]
		if x == nil {
			x = &rule{Name: display.Visible(a.Rule), first: a.Step}
			byName[a.Rule] = x
			out = append(out, x)
		}
		x.times++
		x.last, x.Holds = a.Step, r.holds(a)
		x.Fatal = a.Fatal && x.Holds
		x.Finding, x.Try = display.Visible(display.Truncate(a.Finding, 500)), display.Visible(display.Truncate(a.Try, 500))
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
