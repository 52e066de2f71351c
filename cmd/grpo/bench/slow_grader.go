package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-7879b91d/grpo/reward"
)

// slowGrader is a grader that makes every program work for a while before it begins, in the sandbox.
type slowGrader struct {
	reward.Grader
	work     time.Duration
	sleep    bool         // sleep instead of working
	programs atomic.Int64 // number of programs that were run
}

const (
	busySource = `import time
labour = time.process_time() + %g
while time.process_time() < labour: pass
`
	sleepSource = `import time
time.sleep(%g)
`
)

func (l *slowGrader) Grade(ctx context.Context, c reward.Completion) (reward.Score, error) {
	code, ok := reward.Extract(c.Text)
	if ok && l.work > 0 {
		prelude := busySource
		if l.sleep {
			prelude = sleepSource
		}
		c.Text, c.Bare = fmt.Sprintf(prelude, l.work.Seconds())+code, true
	}
	s, err := l.Grader.Grade(ctx, c)
	if ok && !s.Cached && s.Verdict != reward.CE {
		l.programs.Add(1)
	}
	return s, err
}
