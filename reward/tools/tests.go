package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// runTests runs the public tests of the problem.
type runTests struct {
	kit            *Kit
	public, hidden data.Problem
	tests          []data.Test // the public ones
}

func (k *Kit) newTests(ctx context.Context) (*runTests, error) {
	public, hidden, err := k.split(ctx)
	if err != nil {
		return nil, err
	}
	return &runTests{kit: k, public: k.problem.WithTests(public...), hidden: k.problem.WithTests(hidden...), tests: public}, nil
}

// split separates the public tests from the hidden ones.
func (k *Kit) split(ctx context.Context) (public, hidden []data.Test, err error) {
	if k.problem.NumTests == 0 || k.problem.Kind == data.Answer { // the tests of an Answer problem are not for programs
		return nil, nil, nil
	}
	tests, err := k.problem.Tests(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range tests {
		if t.Public {
			public = append(public, t)
		} else {
			hidden = append(hidden, t)
		}
	}
	if len(public) == 0 {
		n := min(k.options.PublicTests, len(tests))
		public, hidden = tests[:n:n], tests[n:]
	}
	return public, hidden, nil
}

func (r *runTests) Name() string { return "run_tests" }

func (r *runTests) Schema() json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"type":"function","function":{"name":"run_tests","description":"Runs a program on the public tests `+
		`of the task (%d of them) and shows for each whether it passes, and where it does not, the input, what is expected and what came `+
		`out.","parameters":{"type":"object","properties":{"code":{"type":"string","description":"the whole program"}},"required":["code"],`+
		`"additionalProperties":false}}}`, len(r.tests)))
}

func (r *runTests) answer(ctx context.Context, raw json.RawMessage) (string, error) {
	var args struct {
		Code string `json:"code"`
	}
	if err := decode(raw, &args, `{"code": "…"}`); err != nil {
		return "", err
	}
	if err := checkCode(args.Code); err != nil {
		return "", err
	}
	var parts []string
	if len(r.tests) == 0 {
		parts = append(parts, "this task has no public tests")
	} else {
		seen, err := r.see(ctx, &r.public, args.Code)
		if err != nil {
			return "", err
		}
		parts = r.report(seen)
	}
	if r.kit.options.CountHidden && r.hidden.NumTests > 0 {
		seen, err := r.see(ctx, &r.hidden, args.Code)
		if err != nil {
			return "", err
		}
		parts = append(parts, fmt.Sprintf("hidden tests: %d of %d pass", passed(seen), len(seen)))
	}
	return strings.Join(parts, "\n"), nil
}

func (r *runTests) see(ctx context.Context, p *data.Problem, code string) ([]reward.Seen, error) {
	seen, err := r.kit.options.Judge.See(ctx, r.kit.options.Group, p, code)
	r.kit.note(func(s *Stats) {
		for i := range seen {
			s.CPU += seen[i].Result.CPU
		}
	})
	return seen, err
}

func passed(seen []reward.Seen) (n int) {
	for i := range seen {
		if seen[i].Verdict == reward.AC {
			n++
		}
	}
	return n
}

// report has a line for every test. The failures share the available bytes.
func (r *runTests) report(seen []reward.Seen) []string {
	good := passed(seen)
	parts := []string{fmt.Sprintf("%d of %d public tests pass", good, len(seen))}
	for i := range seen { // the test with the smallest input ran first
		if seen[i].Verdict == reward.CE {
			return append(parts, "the program cannot be compiled:", strings.TrimSpace(seen[i].Result.Stderr))
		}
	}
	room := (r.kit.options.Text - 100) / max(len(seen)-good, 1)
	for i := range seen {
		if seen[i].Verdict != reward.AC {
			parts = append(parts, r.failure(i, &seen[i], max(room-40, 60)))
		} else {
			parts = append(parts, fmt.Sprintf("test %d: passes", i+1))
		}
	}
	return parts
}

// outcomes describe the verdicts.
var outcomes = map[reward.Verdict]string{
	reward.WA: "wrong answer", reward.RTE: "ended with an error", reward.TLE: "took too long", reward.MLE: "took too much memory",
	reward.OLE: "printed too much", reward.CE: "cannot be compiled", "": "not run",
}

// failure describes a failed test in about n bytes: its input, what is expected, and what came out.
func (r *runTests) failure(i int, s *reward.Seen, n int) string {
	t, result := &r.tests[i], &s.Result
	text := fmt.Sprintf("test %d: %s", i+1, outcomes[s.Verdict])
	if s.Verdict == "" {
		return text
	}
	input, expected, got := shown(t, result)
	parts := []struct{ name, text string }{{"input", input}, {"expected", expected}}
	if s.Verdict == reward.WA {
		parts = append(parts, struct{ name, text string }{"got", got})
	} else if result.Stderr != "" {
		parts = append(parts, struct{ name, text string }{"error", result.Stderr})
	}
	for _, p := range parts {
		text += "\n  " + p.name + ": " + indented(fit(strings.TrimRight(p.text, "\n"), max(n/len(parts), 60)))
	}
	if s.Verdict == reward.WA && t.Kind() == data.Call && got == "" {
		text += "(no value that JSON can carry) " + strings.TrimSpace(result.Stderr)
	}
	return text
}

// shown is the input of a test, what is expected, and what came out.
func shown(t *data.Test, result *sandbox.Result) (input, expected, got string) {
	if t.Kind() == data.Assert {
		return t.Assert, "nothing is raised", strings.TrimSpace(result.Stderr)
	}
	if t.Kind() != data.Call {
		return t.Stdin, t.Stdout, string(result.Stdout)
	}
	args := make([]string, len(t.Args))
	for i, a := range t.Args {
		args[i] = string(a)
	}
	return strings.Join(args, ", "), string(t.Returns), string(result.Value)
}

// Failure is the first public test that a program fails.
type Failure struct {
	Test, Of             int    // counts from 1; 0: it fails none
	Outcome              string // in words
	Input, Expected, Got string
	Error                string // the end of the program's standard error
}

// FirstFailure runs a program on the public tests of a problem.
func FirstFailure(ctx context.Context, p *data.Problem, code string, o Options) (f Failure, err error) {
	o.Tools = []string{"run_tests"}
	k, err := Open(ctx, p, o)
	if err != nil {
		return f, err
	}
	defer k.Close()
	r := k.tools[0].(*counted).answerer.(*runTests)
	f.Of = len(r.tests)
	if f.Of == 0 || checkCode(code) != nil {
		return f, nil
	}
	seen, err := r.see(ctx, &r.public, code)
	for i := range seen {
		s := &seen[i]
		if s.Verdict == reward.AC || s.Verdict == "" {
			continue
		}
		most := k.options.Text / 4
		f.Test, f.Outcome, f.Error = i+1, outcomes[s.Verdict], steady(fit(strings.TrimSpace(s.Result.Stderr), most))
		input, expected, got := shown(&r.tests[i], &s.Result)
		for to, text := range map[*string]string{&f.Input: input, &f.Expected: expected, &f.Got: got} {
			*to = steady(fit(strings.TrimRight(text, "\n"), most))
		}
		break
	}
	return f, err
}

// indented puts a text of several lines on lines of its own and indents them.
func indented(text string) string {
	if !strings.Contains(text, "\n") {
		return text
	}
	return "\n    " + strings.ReplaceAll(text, "\n", "\n    ")
}
