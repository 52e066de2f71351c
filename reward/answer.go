package reward

import (
	"context"
	"fmt"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/match"
)

// answer compares the text of a completion with the expected answer, for a problem that asks for no program.
func (j *Judge) answer(ctx context.Context, c Completion, s *Score) error {
	set, err := j.tester.sets.acquire(ctx, c.Problem)
	if err != nil {
		return err
	}
	defer j.tester.sets.release(set)
	tests, verdict, passed, answered := make([]Verdict, len(set.tests)), AC, 0, false
	for _, test := range set.order {
		r := set.matchers[test].Match(c.Text)
		answered = answered || r.Answered
		if tests[test] = WA; r.Right {
			tests[test], passed = AC, passed+1
		} else {
			verdict = WA
		}
	}
	s.Total = len(set.order)
	if !answered {
		s.Components.Format = -1
		return nil
	}
	s.Verdict, s.Passed, s.Tests = verdict, passed, tests
	if verdict == AC {
		s.Components.Correct = 1
	}
	s.Components.Fraction = float64(passed) / float64(s.Total)
	return nil
}

// matchersOf compiles the matchers of the tests of an Answer problem.
func matchersOf(p *data.Problem, tests []data.Test) ([]*match.Matcher, error) {
	matchers := make([]*match.Matcher, len(tests))
	for i := range tests {
		m, err := match.New(tests[i].Match.By, tests[i].Match.Want)
		if err != nil {
			return nil, fmt.Errorf("problem %s: tests[%d]: %w", p.ID, i, err)
		}
		matchers[i] = m
	}
	return matchers, nil
}
