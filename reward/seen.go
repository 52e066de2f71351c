package reward

import (
	"context"
	"fmt"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// Seen is what a program did on one test.
type Seen struct {
	// Verdict is "" where the test was not run, since others before it had used up a limit or the program
	// cannot be compiled.
	Verdict Verdict
	Result  sandbox.Result
}

// See runs a program on the tests of p, all of which whoever asked may see, and says what it did on each: what Grade would say of
// it, with the outputs. A failure of the sandbox is an error that wraps a *sandbox.InfraError.
func (j *Judge) See(ctx context.Context, group string, p *data.Problem, code string) ([]Seen, error) {
	if p.Kind == data.Answer {
		return nil, fmt.Errorf("problem %s: its tests are not for programs", p.ID)
	}
	set := &testSet{problem: p}
	if err := set.load(ctx, 0); err != nil {
		return nil, err
	}
	t := j.tester
	t.patience = 2 // a program that is too slow for two tests has been told so
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

// Pool has the cells that programs run in, or is nil where they run elsewhere.
func (j *Judge) Pool() *sandbox.Pool {
	pool, _ := j.tester.runner.(*sandbox.Pool)
	return pool
}
