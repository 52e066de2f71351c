package reward

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

func correct(t *testing.T) Rules {
	w, err := ModeWeights("correct")
	require.NoError(t, err)
	return Rules{Weights: w}
}

func fraction(t *testing.T) Rules {
	w, err := ModeWeights("fraction")
	require.NoError(t, err)
	return Rules{Weights: w}
}

// The rewards of correct, as in other trainers: −0.1 without a program, 0 for a wrong one, 1 for a right one.
func TestParity(t *testing.T) {
	f := newFake()
	j := NewJudge(correct(t), f, nil, nil)
	p := echoProblem("p", 3)
	for _, text := range []string{"", "no code", "```python\necho", fenced("  ")} {
		s := grade(t, j, Completion{Problem: p, Text: text})
		require.Equal(t, Score{Reward: -0.1, Components: Components{Format: -1}, Total: 3}, s)
	}
	require.Zero(t, f.runs.Load(), "nothing to run")
	require.Equal(t, 0.0, grade(t, j, Completion{Problem: p, Text: fenced("empty")}).Reward)
	require.Equal(t, Score{
		Reward: 1, Components: Components{Compile: 1, Fraction: 1, Correct: 1},
		Verdict: AC, Passed: 3, Total: 3, Tests: []Verdict{AC, AC, AC}, CPU: 3 * time.Millisecond,
	}, grade(t, j, Completion{Problem: p, Text: fenced("echo")}))
	require.Equal(t, 1.0, grade(t, j, Completion{Problem: p, Text: "echo\n", Bare: true}).Reward)
}

func TestVerdicts(t *testing.T) {
	for _, tt := range []struct {
		code    string
		verdict Verdict
		binary  []Verdict
		reward  float64 // with mode fraction
	}{
		{"echo", AC, []Verdict{AC, AC, AC, AC}, 1},
		{"wrong on xx", WA, []Verdict{AC, AC, WA, AC}, 0.75},
		{"empty", WA, []Verdict{WA, WA, WA, WA}, 0},
		{"crash", RTE, []Verdict{RTE, RTE, RTE, RTE}, 0},
		{"bad", CE, []Verdict{"", "", "", CE}, 0},
		{"slow", TLE, []Verdict{"", "", "", TLE}, 0},
		{"big", MLE, []Verdict{"", "", "", MLE}, 0},
		{"loud", OLE, []Verdict{"", "", "", OLE}, 0},
		{"short", TLE, []Verdict{"", TLE, AC, AC}, 0.5},
	} {
		p := echoProblem("p", 4)
		s := grade(t, NewJudge(correct(t), newFake(), nil, nil), Completion{Problem: p, Text: fenced(tt.code)})
		require.Equal(t, tt.verdict, s.Verdict, tt.code)
		require.Equal(t, tt.binary, s.Tests, tt.code)
		require.Equal(t, tt.verdict == AC, s.Reward == 1, tt.code)
		require.Equal(t, tt.verdict != CE, s.Components.Compile == 1, tt.code)
		require.Equal(t, tt.reward, s.Components.Fraction, tt.code)

		s = grade(t, NewJudge(fraction(t), newFake(), nil, nil), Completion{Problem: p, Text: fenced(tt.code)})
		require.Equal(t, tt.verdict, s.Verdict, tt.code)
		require.Equal(t, tt.reward, s.Reward, tt.code)
	}
}

// If the reward counts the share of tests passed, a program may exceed three limits before the rest is skipped; small tests run first.
func TestPatience(t *testing.T) {
	f := newFake()
	s := grade(t, NewJudge(fraction(t), f, nil, nil), Completion{Problem: echoProblem("p", 10), Text: fenced("short")})
	require.Equal(t, []Verdict{"", "", "", "", "", TLE, TLE, TLE, AC, AC}, s.Tests)
	require.EqualValues(t, 5, f.runs.Load())
	require.Equal(t, 0.2, s.Reward)
}

func TestMaxTests(t *testing.T) {
	rules := fraction(t)
	rules.MaxTests = 2
	j := NewJudge(rules, newFake(), nil, nil)
	s := grade(t, j, Completion{Problem: echoProblem("p", 4), Text: fenced("wrong on xx")})
	require.Equal(t, []Verdict{AC, AC, "", ""}, s.Tests, "the tests with the largest inputs are run")
	require.Equal(t, 2, s.Total)
	require.Equal(t, 1.0, s.Reward)
	require.Equal(t, 2, grade(t, j, Completion{Problem: echoProblem("p", 4)}).Total)
	s = grade(t, j, Completion{Problem: echoProblem("q", 1), Text: fenced("echo")})
	require.Equal(t, []Verdict{AC}, s.Tests, "all tests if there are no more")

	call := data.Problem{ID: "c", Kind: data.Call, FuncName: "f"}.WithTests(data.Test{Args: []json.RawMessage{json.RawMessage("123")},
		Returns: json.RawMessage("1")}, data.Test{Args: []json.RawMessage{json.RawMessage("1"), json.RawMessage("2")},
		Returns: json.RawMessage("1")}, data.Test{Args: []json.RawMessage{json.RawMessage("1234")}, Returns: json.RawMessage("1")})
	s = grade(t, j, Completion{Problem: &call, Text: fenced("bad")})
	require.Equal(t, []Verdict{CE, "", ""}, s.Tests, "by their arguments, the smaller of two first")
}

// See returns the result of each test, until two have exceeded a limit.
func TestSee(t *testing.T) {
	seen, err := NewJudge(correct(t), newFake(), nil, nil).See(t.Context(), "g", echoProblem("p", 5), "short\n")
	require.NoError(t, err)
	var verdicts []Verdict
	for _, s := range seen {
		verdicts = append(verdicts, s.Verdict)
	}
	require.Equal(t, []Verdict{"", TLE, TLE, AC, AC}, verdicts)
	require.Equal(t, "xx", string(seen[3].Result.Stdout))
}

// A blocked string is reported in the score, and earns nothing with reject.
func TestBlocking(t *testing.T) {
	j := NewJudge(correct(t), newFake(), nil, nil)
	for _, reject := range []bool{false, true} {
		g := Blocking(j, data.Blocklist{"os._exit", "echo"}, reject)
		s := grade(t, g, Completion{Problem: echoProblem("p", 1), Text: fenced("echo")})
		require.Equal(t, []any{"echo", !reject}, []any{s.Blocked, s.Reward == 1})
		s = grade(t, g, Completion{Problem: echoProblem("p", 1), Text: fenced("empty")})
		require.Equal(t, []any{"", WA}, []any{s.Blocked, s.Verdict})
	}
}

// The tests of a problem are fetched for all waiting callers; that the first one gives up does not end it.
func TestTestsAreFetchedForAll(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := data.Problem{ID: "p", Kind: data.Stdin}.WithLoader(1, asks{t})
	sets := newTestSets(0)
	if set, err := sets.acquire(ctx, &p); err == nil { // the tests are there and the context has ended: either may win
		sets.release(set)
	}
	require.Empty(t, sets.open)
}

type asks struct{ *testing.T }

func (a asks) LoadTests(ctx context.Context) ([]data.Test, error) {
	require.NoError(a, ctx.Err())
	return []data.Test{{}}, nil
}

func TestLimits(t *testing.T) {
	f := newFake()
	p := data.Problem{ID: "p", Kind: data.Stdin, Limits: data.Limits{TimeMS: 1500}}.WithTests(
		data.Test{Limits: data.Limits{MemoryMB: 64}}, data.Test{}, data.Test{Limits: data.Limits{TimeMS: 2000}},
		data.Test{Limits: data.Limits{TimeMS: 2000}})
	rules := correct(t)
	require.Equal(t, AC, grade(t, NewJudge(rules, f, nil, nil), Completion{Problem: &p, Text: fenced("echo")}).Verdict)
	require.Equal(t, []sandbox.Limits{
		{CPU: 1500 * time.Millisecond, Memory: 64 << 20}, {CPU: 1500 * time.Millisecond}, {CPU: 2 * time.Second},
	}, f.limits)

	f = newFake()
	grade(t, NewJudge(rules, f, nil, nil), Completion{Problem: echoProblem("p", 1), Text: fenced("echo")})
	rules.Timeout = time.Second
	grade(t, NewJudge(rules, f, nil, nil), Completion{Problem: echoProblem("p", 1), Text: fenced("echo")})
	require.Equal(t, []sandbox.Limits{{CPU: 6 * time.Second}, {CPU: time.Second}}, f.limits)
}

func TestCalls(t *testing.T) {
	f := &fake{programs: map[string]func(sandbox.Input) sandbox.Result{
		"sum\nf":   func(in sandbox.Input) sandbox.Result { return returns("3") },
		"list\nf":  func(in sandbox.Input) sandbox.Result { return returns("[3]") },
		"print\nf": func(in sandbox.Input) sandbox.Result { return prints("3") },
		"close\nf": func(in sandbox.Input) sandbox.Result { return returns("3.0000001") },
	}}
	test := data.Test{Args: []json.RawMessage{json.RawMessage("1"), json.RawMessage("2")}, Returns: json.RawMessage("3")}
	wrapped := test
	wrapped.Returns, wrapped.UnwrapOK = json.RawMessage("[3]"), true
	for _, tt := range []struct {
		code      string
		test      data.Test
		tolerance float64
		want      Verdict
	}{
		{"sum", test, 0, AC}, {"list", test, 0, WA}, {"print", test, 0, WA}, {"close", test, 0, WA}, {"close", test, 1e-6, AC},
		{"sum", wrapped, 0, AC}, {"list", wrapped, 0, AC}, {"print", wrapped, 0, WA},
	} {
		p := data.Problem{ID: "p", Kind: data.Call, FuncName: "f", Tolerance: tt.tolerance}.WithTests(tt.test)
		require.Equal(t, tt.want, grade(t, NewJudge(correct(t), f, nil, nil), Completion{Problem: &p, Text: fenced(tt.code)}).Verdict,
			tt.code)
	}
	wrapped.Returns = json.RawMessage("[3,4]")
	p := data.Problem{ID: "p", Kind: data.Call, FuncName: "f"}.WithTests(wrapped)
	_, err := NewJudge(correct(t), f, nil, nil).Grade(t.Context(), Completion{Problem: &p, Text: fenced("sum")})
	require.ErrorContains(t, err, "problem p: expected value: unwrap_ok wants a list of one element")
}

// Numbers among words are compared as numbers where the problem has a tolerance, and as text where it has none.
func TestToleranceOfOutput(t *testing.T) {
	f := &fake{programs: map[string]func(sandbox.Input) sandbox.Result{
		"words\n": func(sandbox.Input) sandbox.Result { return prints("case 1.0") },
		"near\n":  func(sandbox.Input) sandbox.Result { return prints("case 1.0000001") },
	}}
	for _, tt := range []struct {
		code      string
		tolerance float64
		want      Verdict
	}{{"words", 0, WA}, {"words", 1e-9, AC}, {"near", 1e-9, WA}, {"near", 1e-6, AC}} {
		p := data.Problem{ID: "p", Kind: data.Stdin, Tolerance: tt.tolerance}.WithTests(data.Test{Stdout: "case 1"})
		s := grade(t, NewJudge(correct(t), f, nil, nil), Completion{Problem: &p, Text: fenced(tt.code)})
		require.Equal(t, tt.want, s.Verdict, "%s within %g", tt.code, tt.tolerance)
	}
}

func TestTruncated(t *testing.T) {
	f := newFake()
	c := Completion{Problem: echoProblem("p", 1), Text: fenced("echo"), Truncated: true, Tokens: 50, MaxTokens: 100}
	rules := correct(t)
	s := grade(t, NewJudge(rules, f, nil, nil), c)
	require.Equal(t, 1.0, s.Reward)
	require.Equal(t, 0.5, s.Components.Length)

	f = newFake()
	rules.OnTruncated = MaskTruncated
	require.Equal(t, ExcludedTruncated, grade(t, NewJudge(rules, f, nil, nil), c).Excluded)
	rules.OnTruncated = PenaliseTruncated
	require.Equal(t, -0.1, grade(t, NewJudge(rules, f, nil, nil), c).Reward)
	require.Zero(t, f.runs.Load())
	c.Truncated = false
	require.Equal(t, 1.0, grade(t, NewJudge(rules, f, nil, nil), c).Reward)

	rules.OnTruncated = "drop"
	require.ErrorContains(t, rules.Check(), "on_truncated=drop: expected grade, mask or penalise")
}

func TestVerdictsAreRemembered(t *testing.T) {
	f := newFake()
	j := NewJudge(correct(t), f, newFake(), nil)
	p := echoProblem("p", 3)
	first := grade(t, j, Completion{Problem: p, Text: fenced("wrong on xx")})
	require.False(t, first.Cached)
	again := grade(t, j, Completion{Problem: p, Text: "Or rather:\n" + fenced("wrong on xx")})
	require.True(t, again.Cached)
	again.Cached = false
	require.Equal(t, first, again)
	require.EqualValues(t, 3, f.runs.Load())
	require.EqualValues(t, 1, j.Stats().Cached)
	first.Tests, again.Tests[0] = slices.Clone(first.Tests), "changed"
	require.Equal(t, first.Tests, grade(t, j, Completion{Problem: p, Text: fenced("wrong on xx")}).Tests, "the caller's slice is its own")

	for _, change := range []func(*data.Problem){
		func(p *data.Problem) { *p = p.WithTests(data.Test{Stdin: "x", Stdout: "y"}) },
		func(p *data.Problem) { p.TimeMS = 1 },
		func(p *data.Problem) { p.MemoryMB = 1 },
		func(p *data.Problem) { p.Tolerance = 1 },
		func(p *data.Problem) { p.FuncName = "f" },
		func(p *data.Problem) { p.Checker = "any " },
	} {
		other := *p
		change(&other)
		require.False(t, grade(t, j, Completion{Problem: &other, Text: fenced("wrong on xx")}).Cached)
	}
}

// A cancelled run has no verdict.
func TestWhatIsBrokenOffIsNotRemembered(t *testing.T) {
	f := newFake()
	ctx, cancel := context.WithCancel(t.Context())
	f.programs["last\n"] = func(in sandbox.Input) sandbox.Result { cancel(); return echo(in) }
	j := NewJudge(correct(t), f, nil, nil)
	c := Completion{Problem: echoProblem("p", 2), Text: fenced("last")}
	_, err := j.Grade(ctx, c)
	require.ErrorIs(t, err, context.Canceled)
	s := grade(t, j, c)
	require.Equal(t, []any{AC, false}, []any{s.Verdict, s.Cached})
}

func (emptyLoader) LoadTests(context.Context) ([]data.Test, error) { return nil, nil }

func (brokenLoader) LoadTests(context.Context) ([]data.Test, error) {
	return nil, errors.New("disk gone")
}
