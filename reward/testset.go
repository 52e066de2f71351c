package reward

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/match"
	"github.com/seed-7879b91d/grpo/reward/assertion"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// testSets fetches the tests of a problem once for all completions that are being judged, and drops
// them with the last: the tests of one problem may be hundreds of megabytes.
type testSets struct {
	maxTests int

	mu   sync.Mutex
	open map[*data.Problem]*testSet
}

// testSet has the tests of a problem, prepared to be run.
type testSet struct {
	problem *data.Problem
	tests   []data.Test
	inputs  []sandbox.Input   // one for each test
	order   []int             // indices of the tests that count, the small ones first
	digest  [sha256.Size]byte // of the tests

	matchers []*match.Matcher // one for each test, of an Answer problem

	users int
	ready chan struct{}
	err   error
}

func newTestSets(maxTests int) *testSets {
	return &testSets{maxTests: maxTests, open: map[*data.Problem]*testSet{}}
}

// acquire returns the tests of p; the caller must release them.
func (s *testSets) acquire(ctx context.Context, p *data.Problem) (*testSet, error) {
	s.mu.Lock()
	set, ok := s.open[p]
	if !ok {
		set = &testSet{problem: p, ready: make(chan struct{})}
		s.open[p] = set
	}
	set.users++
	s.mu.Unlock()
	if !ok {
		// Other callers may wait for it, too, so it must not end with this one's context.
		set.err = set.load(context.WithoutCancel(ctx), s.maxTests)
		close(set.ready)
	}
	select {
	case <-set.ready:
	case <-ctx.Done():
		s.release(set)
		return nil, context.Cause(ctx)
	}
	if set.err != nil {
		s.release(set)
		return nil, set.err
	}
	return set, nil
}

func (s *testSets) release(set *testSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if set.users--; set.users == 0 {
		delete(s.open, set.problem)
	}
}

func (s *testSet) load(ctx context.Context, maxTests int) (err error) {
	if s.tests, err = s.problem.Tests(ctx); err != nil {
		return err
	}
	if len(s.tests) == 0 {
		return fmt.Errorf("problem %s has no tests", s.problem.ID)
	}
	if s.problem.Kind == data.Answer {
		if s.matchers, err = matchersOf(s.problem, s.tests); err != nil {
			return err
		}
	}
	hash := sha256.New()
	s.order, s.inputs = make([]int, len(s.tests)), make([]sandbox.Input, len(s.tests))
	for i := range s.tests {
		s.order[i] = i
		encoded, err := s.tests[i].MarshalJSON() // one at a time: together they may be large
		if err != nil {
			return err
		}
		hash.Write(encoded)
		if s.inputs[i] = (sandbox.Input{Stdin: []byte(s.tests[i].Stdin), Args: s.tests[i].Args}); s.problem.Kind == data.Assert {
			s.inputs[i] = assertion.Input(s.problem, &s.tests[i])
		}
		s.tests[i].Stdin = "" // inputs holds it now
	}
	hash.Sum(s.digest[:0])
	size := func(i int) int { return inputSize(s.inputs[i]) }
	slices.SortStableFunc(s.order, func(i, j int) int { return cmp.Compare(size(i), size(j)) })
	if maxTests > 0 && len(s.order) > maxTests {
		// Keep the largest: small tests are often the examples of the statement.
		s.order = s.order[len(s.order)-maxTests:]
	}
	return nil
}

func inputSize(in sandbox.Input) int {
	n := len(in.Stdin)
	for _, arg := range in.Args {
		n += len(arg)
	}
	return n
}
