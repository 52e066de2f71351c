package report

import (
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/internal/display"
)

// check is a line that says whether something is in order.
type check struct {
	Tone string // good, bad or open
	Text string
}

// checks say which guarantees held in a run, and where samples were lost.
func (r *run) checks() []check {
	var out []check
	for _, c := range []func() (check, bool){r.fatal, r.kept, r.ahead, r.scored, r.blocked, r.taught, r.cutOff, r.updates} {
		if line, says := c(); says {
			out = append(out, line)
		}
	}
	return out
}

func (r *run) fatal() (check, bool) {
	for _, a := range r.advice {
		if a.Fatal && r.holds(a) {
			return check{"bad", fmt.Sprintf("The run was stopped at step %d: %s. Try: %s",
				a.Step, display.Visible(a.Finding), display.Visible(a.Try))}, true
		}
	}
	return check{}, false
}

// kept checks that trainer and sampler computed the same log-probabilities.
func (r *run) kept() (check, bool) {
	measured, broken, most, at := 0, 0, 0.0, 0
	for i := range r.steps {
		diff := onPolicy(&r.steps[i])
		if diff != diff {
			continue
		}
		measured++
		if diff != 0 {
			broken++
		}
		if a := math.Abs(diff); a > most {
			most, at = a, r.steps[i].Step
		}
	}
	switch {
	case measured == 0:
		return check{}, false
	case broken == 0:
		return check{"good", fmt.Sprintf("max|Δlogp| on policy was exactly 0 at %s: trainer and sampler agree to the bit",
			every(measured, "update"))}, true
	}
	return check{"bad", fmt.Sprintf("max|Δlogp| on policy, guaranteed to be 0, was not 0 at %d of %s: up to %s, at step %d",
		broken, count(measured, "update"), number(most), at)}, true
}

// ahead tells of steps that were sampled ahead.
func (r *run) ahead() (check, bool) {
	ahead, oldest, most := 0, 0.0, 0.0
	for _, s := range r.steps {
		if s.Staleness > 0 && s.OnPolicy == s.OnPolicy {
			ahead, oldest, most = ahead+1, max(oldest, s.Staleness), max(most, s.OnPolicy)
		}
	}
	if ahead == 0 {
		return check{}, false
	}
	return check{"open", fmt.Sprintf("%s trained on completions sampled up to %s earlier; max|Δlogp| there was up to %s",
		count(ahead, "step"), count(int(oldest), "update"), number(most))}, true
}

func (r *run) blocked() (check, bool) {
	blocked := r.total(func(s *step) float64 { return s.Blocked })
	return check{"open", count(int(blocked), "completion") + " with a blocked string"}, blocked > 0
}

func (r *run) scored() (check, bool) {
	all := r.total(func(s *step) float64 { return s.Completions })
	failed := r.total(func(s *step) float64 { return s.RewardErrors })
	switch {
	case all == 0:
		return check{}, false
	case failed == 0:
		return check{"good", "The sandbox did not fail on any of " + count(int(all), "completion")}, true
	}
	why := "the sandbox failed (grpo doctor), or the reward was not a number"
	if r.settings.JudgeURL != "" {
		why = "the judge gave no score, " + why
	}
	if file := r.total(func(s *step) float64 { return s.FileErrors }); file > 0 {
		why = "the reward file failed on " + grouped(int64(file)) + " of them"
		if r.settings.Recorded != "none" {
			why += " (see the notes of recorded completions)"
		}
	}
	return check{"bad", fmt.Sprintf("%s of %s could not be scored: %s", grouped(int64(failed)), count(int(all), "completion"), why)}, true
}

func (r *run) taught() (check, bool) {
	groups := r.total(func(s *step) float64 { return s.Groups })
	skipped := r.total(func(s *step) float64 { return s.Skipped })
	if groups == 0 {
		return check{}, false
	}
	c := check{"open", fmt.Sprintf("%s of %s gave no gradient, %s",
		grouped(int64(skipped)), count(int(groups), "group"), percent(skipped/groups))}
	tokens := r.total(func(s *step) float64 { return s.Tokens })
	wasted := r.total(func(s *step) float64 { return s.Wasted })
	if wasted > 0 && tokens > 0 {
		c.Text += fmt.Sprintf("; %s of the sampled tokens were in them", percent(wasted/tokens))
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
	c := check{"open", fmt.Sprintf("%s of %s cut off at max_tokens, %s",
		grouped(int64(cut)), count(int(all), "completion"), percent(cut/all))}
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
	tone := "open"
	if 2*without > len(r.steps) {
		tone = "bad"
	}
	return check{tone, fmt.Sprintf("%d of %s changed nothing: no group gave a gradient, or the gradient was non-finite",
		without, count(len(r.steps), "step"))}, true
}
