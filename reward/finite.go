package reward

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/precondition"
)

// mostReward bounds the magnitude of a reward, so that the difference of any two fits into float32, the type of
// advantages.
const mostReward = math.MaxFloat32 / 2

// Finite wraps a grader: it excludes completions whose reward is infinite, NaN, or too large to compare with
// others.
func Finite(g Grader) Grader {
	precondition.NotNil("reward.Finite", "g", g)
	return GraderFunc(func(ctx context.Context, c Completion) (Score, error) {
		s, err := g.Grade(ctx, c)
		if err != nil {
			return s, err
		}
		return s.finite(c), nil
	})
}

// finite replaces numbers of a score that are not finite, or too large, and notes which they were.
func (s Score) finite(c Completion) Score {
	wrong, problem := "", cmp.Or(c.Problem, &data.Problem{})
	check := func(name string, x *float64, most float64) {
		if !(math.Abs(*x) <= most) { // also true for NaN
			wrong = cmp.Or(wrong, fmt.Sprintf("the %s is %v, expected a number of at most %.3g either way; "+
				"the completion of problem %s begins %.60q", name, *x, most, problem.ID, c.Text))
			*x = 0
		}
	}
	check("reward", &s.Reward, mostReward)
	for _, part := range s.Components.named() {
		check("component "+part.name, part.value, 1e300) // a small weight may bring it into range, and a sum over a step stays finite
	}
	if wrong != "" && s.Excluded == "" {
		s.Excluded, s.Note = ExcludedReward, wrong
	}
	return s
}
