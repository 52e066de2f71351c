package reward

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward/assertion"
	"github.com/seed-7879b91d/grpo/reward/output"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// tester runs programs on tests.
type tester struct {
	runner  Runner
	checker *checker
	limits  sandbox.Limits
	// patience is the number of tests that may exhaust a limit before the rest are skipped, as failed.
	patience int
	sets     *testSets
	seen     *singleFlight[[sha256.Size]byte, outcome]

	assertions Runner // of Assert problems
}

// outcome is the result of a program on the tests of a problem.
type outcome struct {
	verdict Verdict
	passed  int
	total   int // tests that count
	tests   []Verdict
	cpu     time.Duration
	note    string
}

// rememberedPrograms bounds the cache of verdicts.
const rememberedPrograms = 1 << 15

// test runs a program on the tests of p, or returns the cached outcome of an equal one. A failure of the
// sandbox is the verdict INFRA, which is not cached.
func (t *tester) test(ctx context.Context, group string, p *data.Problem, code string) (o outcome, cached bool, err error) {
	set, err := t.sets.acquire(ctx, p)
	if err != nil {
		return o, false, err
	}
	defer t.sets.release(set)
	return t.seen.do(ctx, t.key(set, code), func() (outcome, bool, error) {
		r := run{tester: t, group: group, set: set, program: sandbox.Program{Code: code, Call: p.FuncName}}
		err := r.all(ctx)
		var broken *sandbox.InfraError
		if errors.As(err, &broken) {
			return outcome{verdict: INFRA, total: len(set.order), tests: r.tests, cpu: r.cpu, note: broken.Error()}, false, nil
		}
		return r.outcome(), err == nil, err
	})
}

// key is a hash of everything that the outcome depends on, except for what is constant in a tester: the
// interpreter and the default limits.
func (t *tester) key(set *testSet, code string) (key [sha256.Size]byte) {
	p := set.problem
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %q %d %d %g %q %x %q", p.Kind, p.FuncName, p.TimeMS, p.MemoryMB, p.Tolerance, p.Checker, set.digest, code)
	hash.Sum(key[:0])
	return key
}

// run is the state of one program's run through the tests.
type run struct {
	*tester
	group     string
	set       *testSet
	program   sandbox.Program
	tests     []Verdict
	results   []sandbox.Result // of each test, for See; else nil
	cpu       time.Duration
	note      string
	exhausted int
	stopped   bool
}

// all runs the tests, small inputs first: if it stops early, it has skipped the most expensive
// ones.
func (r *run) all(ctx context.Context) error {
	r.tests = make([]Verdict, len(r.set.tests))
	for order := r.set.order; len(order) > 0 && !r.stopped; {
		limits := r.limitsOf(order[0])
		n := 1
		for n < len(order) && r.set.problem.Checker == "" && r.limitsOf(order[n]) == limits {
			n++
		}
		if err := r.batch(ctx, order[:n], limits); err != nil {
			return err
		}
		order = order[n:]
	}
	return nil
}

// batch runs tests with equal limits in one call. With a checker a batch is a single test, so that no
// slot is held while the checker runs.
func (r *run) batch(ctx context.Context, order []int, limits sandbox.Limits) error {
	inputs := make([]sandbox.Input, len(order))
	for i, test := range order {
		inputs[i] = r.set.inputs[test]
	}
	var last sandbox.Result
	var failed error
	ran := 0
	runner := r.runner
	if r.set.problem.Kind == data.Assert {
		if runner = r.assertions; runner == nil {
			return fmt.Errorf("problem %s: its tests are assertions, which need a judge made by reward.Open",
				r.set.problem.ID)
		}
	}
	if runner == nil {
		return fmt.Errorf("problem %s: the judge has no runner for programs of the model; give reward.NewJudge submissions", r.set.problem.ID)
	}
	err := runner.Run(ctx, r.group, r.program, inputs, limits, func(i int, result sandbox.Result) bool {
		ran++
		r.cpu += result.CPU
		if r.results != nil {
			r.results[order[i]] = result
		}
		if last = result; r.set.problem.Checker == "" {
			r.tests[order[i]], failed = r.verdict(order[i], result)
			r.count(r.tests[order[i]])
		}
		return !r.stopped && failed == nil
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return err
	case ran < len(order) && !r.stopped:
		return fmt.Errorf("problem %s: the sandbox ran %d of %d tests and gave no reason", r.set.problem.ID, ran, len(order))
	case r.set.problem.Checker != "":
		r.tests[order[0]], err = r.checked(ctx, order[0], last)
		r.count(r.tests[order[0]])
	}
	return err
}

// count stops the run when the verdict is settled (a CE fails every test) or patience is used up.
func (r *run) count(v Verdict) {
	switch v {
	case CE:
		r.stopped = true
	case TLE, MLE, OLE:
		r.exhausted++
		r.stopped = r.exhausted >= r.patience
	}
}

// limitsOf are the limits of a test, with those of its problem and then of the tester as defaults.
func (r *run) limitsOf(test int) sandbox.Limits {
	own := r.set.tests[test].Limits.Or(r.set.problem.Limits)
	limits := r.limits
	if own.TimeMS > 0 {
		limits.CPU = own.Time()
	}
	if own.MemoryMB > 0 {
		limits.Memory = own.Memory()
	}
	return limits
}

// endVerdict is the verdict of a run without an answer, "" if there is an answer to compare.
func endVerdict(s sandbox.Status) Verdict {
	switch s {
	case sandbox.OK:
		return ""
	case sandbox.TLE:
		return TLE
	case sandbox.MLE:
		return MLE
	case sandbox.OLE:
		return OLE
	case sandbox.CE:
		return CE
	}
	return RTE
}

// verdict compares an answer.
func (r *run) verdict(test int, result sandbox.Result) (Verdict, error) {
	if v := endVerdict(result.Status); v != "" {
		return v, nil
	}
	if r.set.problem.Kind == data.Assert && strings.HasPrefix(result.Stderr, assertion.Faulty) {
		r.note = checkerNote + result.Stderr
		r.checker.fail(result.Stderr)
	}
	right, err := answerIsRight(&r.set.tests[test], result, r.set.problem.Tolerance)
	if err != nil {
		return "", fmt.Errorf("problem %s: %w", r.set.problem.ID, err)
	}
	return map[bool]Verdict{true: AC, false: WA}[right], nil
}

// answerIsRight reports whether the answer is the expected one.
func answerIsRight(t *data.Test, result sandbox.Result, tolerance float64) (bool, error) {
	switch {
	case t.Kind() == data.Assert:
		return string(result.Value) == "true", nil
	case t.Kind() == data.Call && result.Value == nil:
		return false, nil
	case t.Kind() == data.Call:
		same, err := SameValue(result.Value, t.Returns, tolerance)
		if same || err != nil || !t.UnwrapOK {
			return same, err
		}
		var list []json.RawMessage
		if err := json.Unmarshal(t.Returns, &list); err != nil || len(list) != 1 {
			return false, fmt.Errorf("expected value: unwrap_ok wants a list of one element, found %.40s", t.Returns)
		}
		return SameValue(result.Value, list[0], tolerance)
	case tolerance > 0:
		return output.Close(result.Stdout, t.Stdout, tolerance), nil
	}
	return output.Same(result.Stdout, t.Stdout), nil
}

// checked asks the problem's own checker.
func (r *run) checked(ctx context.Context, test int, result sandbox.Result) (Verdict, error) {
	if v := endVerdict(result.Status); v != "" {
		return v, nil
	}
	t := &r.set.tests[test]
	if t.Kind() == data.Call && result.Value == nil {
		return WA, nil
	}
	right, note, err := r.checker.check(ctx, r.group, r.set.problem.Checker, t, r.set.inputs[test], result)
	if note != "" {
		r.note = note
	}
	return map[bool]Verdict{true: AC, false: WA}[right], err
}

// outcome sums up. The verdict is that of the first failed test, in the order of the problem.
func (r *run) outcome() outcome {
	o := outcome{verdict: AC, total: len(r.set.order), tests: r.tests, cpu: r.cpu, note: r.note}
	for _, test := range slices.Sorted(slices.Values(r.set.order)) {
		switch v := r.tests[test]; {
		case v == AC:
			o.passed++
		case v != "" && o.verdict == AC:
			o.verdict = v
		}
	}
	return o
}
