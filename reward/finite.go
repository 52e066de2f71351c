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
	c := &s.Components
	wrong := ""
	for _, f := range []struct {
		name string
		x    *float64
		most float64
	}{
		{"reward", &s.Reward, mostReward}, {"component format", &c.Format, math.MaxFloat64}, {"component compile", &c.Compile, math.MaxFloat64},
		{"component fraction", &c.Fraction, math.MaxFloat64}, {"component correct", &c.Correct, math.MaxFloat64},
		{"component length", &c.Length, math.MaxFloat64}, {"component custom", &c.Custom, math.MaxFloat64},
	} {
		if math.Abs(*f.x) <= f.most { // which NaN is not
			continue
		}
		if wrong == "" {
			wrong = fmt.Sprintf("the %s is %v, expected a number of at most %.3g either way", f.name, *f.x, f.most)
		}
		*f.x = 0
	}
	if wrong != "" && s.Excluded == "" {
		s.Excluded, s.Note = ExcludedReward, wrong
	}
	return s
}
