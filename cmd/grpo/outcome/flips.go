package outcome

import (
	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/data"
)

// Flip is a problem that was wrong before and right after.
type Flip struct {
	Problem       *data.Problem
	Before, After string
}

// Flips returns up to n problems that became right between two evaluations on the same problems. After a resume there are
// none, as the first evaluation is then only a line in the record.
func Flips(first, last *grpo.Evaluation, n int) (flips []Flip) {
	was, is := first.GreedyTry.Groups, last.GreedyTry.Groups
	for i := range min(len(was), len(is)) {
		before, after := was[i].Rollouts[0], is[i].Rollouts[0]
		wrong := before.Score.Excluded == "" && before.Score.Components.Correct == 0
		if wrong && after.Score.Components.Correct == 1 && len(flips) < n {
			flips = append(flips, Flip{&was[i].Problem, before.Text, after.Text})
		}
	}
	return flips
}
