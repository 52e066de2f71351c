package reward

import (
	"context"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/precondition"
)

// Blocking wraps a grader: it reports the first string of a block list that a completion contains. With reject such a
// completion scores 0 without being graded.
func Blocking(g Grader, list data.Blocklist, reject bool) Grader {
	precondition.NotNil("reward.Blocking", "g", g)
	return blockingGrader{g, list, reject}
}

type blockingGrader struct {
	Grader
	list   data.Blocklist
	reject bool
}

// Grade looks for a blocked string before it has the completion graded.
func (b blockingGrader) Grade(ctx context.Context, c Completion) (Score, error) {
	word, found := b.list.Find(c.Text)
	if found && b.reject {
		return Score{Blocked: word}, nil
	}
	s, err := b.Grader.Grade(ctx, c)
	s.Blocked = word
	return s, err
}
