package reward

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/data"
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
		return s.finite(c), nil
	})
}

// finite is the score of a completion without a number that is none. What was wrong is said with where to look for it.
func (s Score) finite(c Completion) Score {
	wrong, problem := "", cmp.Or(c.Problem, &data.Problem{})
	check := func(name string, x *float64, most float64) {
		if !(math.Abs(*x) <= most) { // as of NaN
			wrong = cmp.Or(wrong, fmt.Sprintf("the %s is %v, expected a number of at most %.3g either way; "+
				"the completion of problem %s begins %.60q", name, *x, most, problem.ID, c.Text))
			*x = 0
		}
	}
	check("reward", &s.Reward, mostReward)
	for _, part := range s.Components.named() {
		check("component "+part.name, part.value, 1e300) // which a weight may make small; sums of a step are finite
	}
	if wrong != "" && s.Excluded == "" {
		s.Excluded, s.Note = ExcludedReward, wrong
	}
	return s
}
