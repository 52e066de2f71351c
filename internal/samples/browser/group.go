package browser

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/samples"
)

// How much is shown of a text at most, in bytes.
const (
	mostText      = 400 << 10
	mostStatement = 100 << 10
	mostInput     = 4 << 10
)

// near is a group in detail.
type near struct {
	Statement  string
	Prompt     string // if the statement is unknown
	Asked      string // why there is neither
	Siblings   []sibling
	Left       *answer
	Right      *answer
	By         []choice // ways to color
	Way        string
	Reason     string // why there is no color
	Back, Next string // URLs of the neighbouring groups
	History    []visit
	Problem    string
	Partial    bool
	Lost       string // lines that are no completions
}

// sibling is a completion in the row of all of the group.
type sibling struct {
	Sample   int
	Verdict  chip
	Reward   string
	Right    bool
	Best     bool
	Shown    bool
	Excluded bool
}

// answer is a completion in detail.
type answer struct {
	Which, Reward, Advantage, Tests, Finish, Note string
	Sample, Tokens                                int
	Mean                                          string // mean log-probability of its tokens
	Verdict                                       chip
	Strip                                         []chip // verdicts of tests
	Failed                                        *failed
	Blocks                                        []block
}

// failed is the first test that failed.
type failed struct {
	Number          int
	Verdict         string
	Input, Expected string
	Known           bool
}

// block is a message; a plain completion is a block without a role.
type block struct {
	Who    string
	Note   string
	Pieces []piece
}

// group shows a group in detail.
func (p *page) group() error {
	step, number := p.number("step", -1), p.number("group", -1)
	g, ok := p.view.Find(step, number)
	if !ok {
		p.Title, p.Nothing = fmt.Sprintf("Group %d of step %d", number, step), "It is not on record"+p.nearest(step)
		return nil
	}
	all, whole, err := p.view.Read(g)
	if err != nil {
		return err
	}
	name := all[0].Problem
	n := &near{Problem: name, Partial: !whole, Way: p.ask.Get("by")}
	p.Title = display.Visible(name)
	p.Detail = fmt.Sprintf("Step %d, group %d: %d of %d right.", step, number, g.Right, g.Samples)
	if g.Left > 0 {
		p.Detail += fmt.Sprintf(" %d left out of the group.", g.Left)
	}
	if lost := int(g.Samples) - len(all); whole && lost > 0 {
		n.Lost = count(lost, "line") + " of this group is not a completion, and was skipped."
		if lost > 1 {
			n.Lost = count(lost, "line") + " of this group are not completions, and were skipped."
		}
	}
	p.Near = n
	problem := p.asked(n, &all[0])
	best, other := choose(all, p.number("sample", -1))
	p.siblings(n, all, best, other)
	p.answers(n, &all[best], &all[other], best == other, problem)
	p.around(n, step, number)
	var visits []samples.Group
	for _, v := range p.view.Groups {
		if v.Problem == g.Problem {
			visits = append(visits, v)
		}
	}
	if n.History, _, _ = history(visits); len(n.History) > mostVisits {
		n.History = n.History[len(n.History)-mostVisits:]
	}
	return nil
}

// asked finds the problem or the prompt.
func (p *page) asked(n *near, s *samples.Sample) *Problem {
	if p.known.Problem != nil {
		if problem := p.known.Problem(p.Dir, s.Problem); problem != nil {
			n.Statement = display.Visible(display.Truncate(problem.Statement, mostStatement))
			return problem
		}
	}
	if p.known.Pieces != nil && len(s.Prompt) > 0 {
		n.Prompt = display.Visible(display.Truncate(strings.Join(p.known.Pieces(p.Dir, s.Prompt), ""), mostStatement))
	}
	if n.Prompt == "" {
		n.Asked = "The record has the prompt as tokens only. To show its text, the data of the run, or the tokenizer of its model, " +
			"must be on this machine."
	}
	return nil
}

// choose returns the best completion, and another: the one that was asked for, or the worst.
func choose(all []samples.Sample, sample int) (best, other int) {
	for i := range all {
		if value(&all[i]) > value(&all[best]) {
			best = i
		}
		if value(&all[i]) < value(&all[other]) {
			other = i
		}
	}
	for i := range all {
		if all[i].Sample == sample {
			other = i
		}
	}
	return best, other
}

// value is the sort key of completions; without a reward it is the lowest.
func value(s *samples.Sample) float64 {
	if s.Score.Reward == nil {
		return math.Inf(-1)
	}
	return *s.Score.Reward
}

func (p *page) siblings(n *near, all []samples.Sample, best, other int) {
	for i := range all {
		s := &all[i]
		n.Siblings = append(n.Siblings, sibling{Sample: s.Sample, Verdict: chipOf(s.Score.Verdict), Reward: number(s.Score.Reward),
			Right: s.Right(), Best: i == best, Shown: i == best || i == other, Excluded: s.Score.Excluded != ""})
	}
}

// answers shows the best completion and another, or the only one.
func (p *page) answers(n *near, best, other *samples.Sample, alone bool, problem *Problem) {
	if !slices.Contains(ways, n.Way) {
		n.Way = byDifference
		if alone {
			n.Way = byProbability
		}
	}
	for _, way := range ways {
		if way != byDifference || !alone {
			n.By = append(n.By, choice{way, way, way == n.Way})
		}
	}
	n.Left = about(best, problem)
	n.Left.Which = "best"
	if alone {
		n.Left.Which = "one"
		if other.Score.Reward != nil && len(n.Siblings) > 1 {
			n.Left.Which = "all got the same reward; this is one"
		}
	} else {
		n.Right = about(other, problem)
		n.Right.Which = "beside it"
		if value(other) < value(best) && p.ask.Get("sample") == "" {
			n.Right.Which = "worst"
		}
	}
	switch n.Way {
	case byProbability, byAdvantage:
		n.Left.Blocks, n.Reason = p.painted(best, n.Way)
		if n.Right != nil && n.Reason == "" {
			n.Right.Blocks, n.Reason = p.painted(other, n.Way)
		}
		if n.Reason == "" {
			return
		}
	case byMovement:
		n.Reason = "The record does not have the change of each token by training: it has only the log-probability under the policy that " +
			"sampled the token. grpo serve --run " + display.Visible(display.ShellQuote(p.Dir)) + " shows the change for prompts of your own."
	case byDifference:
		if n.Right != nil {
			n.Left.Blocks, n.Right.Blocks = compared(best, other)
			return
		}
	}
	n.Left.Blocks = said(best)
	if n.Right != nil {
		n.Right.Blocks = said(other)
	}
}

// about describes the result of a completion.
func about(s *samples.Sample, problem *Problem) *answer {
	a := &answer{Sample: s.Sample, Tokens: s.Length(), Verdict: chipOf(s.Score.Verdict), Reward: number(s.Score.Reward),
		Advantage: signed(s.Advantage), Note: display.Visible(display.Truncate(s.Score.Note, 1000))}
	if s.Score.Total > 0 {
		a.Tests = fmt.Sprintf("%d of %d", s.Score.Passed, s.Score.Total)
	}
	if mean, known := s.MeanLogProb(); known {
		a.Mean = strconv.FormatFloat(mean, 'f', 3, 64)
	}
	switch {
	case s.Score.Excluded != "":
		a.Finish = "left out of its group: " + display.Visible(s.Score.Excluded)
	case s.Talk != nil && s.Talk.Ending != "":
		a.Finish = "ended by " + display.Visible(s.Talk.Ending)
	case s.Finish == "length":
		a.Finish = "cut off at max_tokens"
	}
	for _, v := range s.Score.Tests[:min(len(s.Score.Tests), 200)] {
		a.Strip = append(a.Strip, chipOf(v))
	}
	first := slices.IndexFunc(s.Score.Tests, func(v string) bool { return v != "" && v != "AC" })
	if first >= 0 {
		a.Failed = &failed{Number: first + 1, Verdict: display.Visible(s.Score.Tests[first])}
		if problem != nil && first < len(problem.Tests) {
			t := problem.Tests[first]
			a.Failed.Known = true
			a.Failed.Input = display.Visible(display.Truncate(t.Input, mostInput))
			a.Failed.Expected = display.Visible(display.Truncate(t.Expected, mostInput))
		}
	}
	return a
}

// around finds the groups before and after one.
func (p *page) around(n *near, step, number int) {
	i := slices.IndexFunc(p.view.Groups, func(g samples.Group) bool { return int(g.Step) == step && int(g.Number) == number })
	if i > 0 {
		g := p.view.Groups[i-1]
		n.Back = p.Address("group", "step", g.Step, "group", g.Number, "by", p.ask.Get("by"))
	}
	if i+1 < len(p.view.Groups) {
		g := p.view.Groups[i+1]
		n.Next = p.Address("group", "step", g.Step, "group", g.Number, "by", p.ask.Get("by"))
	}
}

func number(v *float64) string {
	if v == nil {
		return "none"
	}
	return display.Number(*v)
}

func signed(v *float64) string {
	if v == nil {
		return "none"
	}
	return display.Signed(*v)
}
