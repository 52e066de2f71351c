package reward

import (
	"context"
	"fmt"
	"math"
)

// mostReward is the largest size of a reward. The difference of any two still fits the single precision that
// advantages are in.
const mostReward = math.MaxFloat32 / 2

// Finite is a grader that leaves out a completion whose reward is infinite, not a number, or too large to be compared
// with others.
func Finite(g Grader) Grader {
	return GraderFunc(func(ctx context.Context, c Completion) (Score, error) {
		s, err := g.Grade(ctx, c)
		if err != nil {
			return s, err
		}
		return s.finite(), nil
	})
}

// finite is a score without a number that is none.
func (s Score) finite() Score {
	wrong := ""
	check := func(name string, x *float64, most float64) {
		if math.Abs(*x) <= most { // which NaN is not
			return
		}
		if wrong == "" {
			wrong = fmt.Sprintf("the %s is %v, expected a number of at most %.3g either way", name, *x, most)
		}
		*x = 0
	}
	check("reward", &s.Reward, mostReward)
	for _, c := range s.Components.named() {
		check("component "+c.name, c.value, math.MaxFloat64)
	}
	if wrong != "" && s.Excluded == "" {
		s.Excluded, s.Note = ExcludedReward, wrong
	}
	return s
}
