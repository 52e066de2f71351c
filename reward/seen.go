package reward

import (
	"context"
	"fmt"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// Seen is the result of a program on one test.
type Seen struct {
	// Verdict is "" if the test was not run, because earlier ones exhausted a limit or the program does not
	// compile.
	Verdict Verdict
	Result  sandbox.Result
}

// See runs a program on the tests of p and returns the verdict and the output of each, for tools of a conversation: p must have public
// tests only. A failure of the sandbox is an error that wraps a *sandbox.InfraError.
func (j *Judge) See(ctx context.Context, group string, p *data.Problem, code string) ([]Seen, error) {
	precondition.NotNil("reward.Judge.See", "problem", p)
	if p.Kind == data.Answer {
		return nil, fmt.Errorf("problem %s has no tests for programs", p.ID)
	}
	set := &testSet{problem: p}
	if err := set.load(ctx, 0); err != nil {
		return nil, err
	}
	t := j.tester
	t.patience = 2 // two timeouts tell the model enough
	r := run{
		tester: &t, group: group, set: set, program: sandbox.Program{Code: code, Call: p.FuncName},
		results: make([]sandbox.Result, len(set.tests)),
	}
	if err := r.all(ctx); err != nil {
		return nil, err
	}
	seen := make([]Seen, len(set.tests))
	for i := range seen {
		seen[i] = Seen{r.tests[i], r.results[i]}
	}
	return seen, nil
}

// Pool is the pool of cells that programs run in, nil if they run on a server.
func (j *Judge) Pool() *sandbox.Pool {
	pool, _ := j.tester.runner.(*sandbox.Pool)
	return pool
}
