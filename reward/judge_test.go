package reward

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
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

func newFake() *fake {
	return &fake{programs: map[string]func(sandbox.Input) sandbox.Result{
		"echo\n":  echo,
		"empty\n": func(sandbox.Input) sandbox.Result { return prints("") },
		"short\n": func(in sandbox.Input) sandbox.Result {
			if len(in.Stdin) > 2 {
				return sandbox.Result{Status: sandbox.TLE}
			}
			return echo(in)
		},
		"wrong on xx\n": func(in sandbox.Input) sandbox.Result {
			if len(in.Stdin) == 2 {
				return prints("?")
			}
			return echo(in)
		},
		"crash\n": ends(sandbox.RTE), "slow\n": ends(sandbox.TLE), "big\n": ends(sandbox.MLE), "loud\n": ends(sandbox.OLE),
		"bad\n": ends(sandbox.CE),
	}}
}

func grade(t *testing.T, g Grader, c Completion) Score {
	t.Helper()
	s, err := g.Grade(t.Context(), c)
	require.NoError(t, err)
	return s
}

// The rewards that others train on: −0.1 without a program, 0 for a wrong one, 1 for a right one.
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
		reward  float64 // as a fraction
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

// Where a share of the tests pays, a program may use up three limits; the small tests come first.
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
	require.Equal(t, []Verdict{AC, AC, "", ""}, s.Tests, "the largest are kept")
	require.Equal(t, 2, s.Total)
	require.Equal(t, 1.0, s.Reward)
	require.Equal(t, 2, grade(t, j, Completion{Problem: echoProblem("p", 4)}).Total)
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

func TestCheckersRunApart(t *testing.T) {
	submissions := newFake()
	trusted := &fake{programs: map[string]func(sandbox.Input) sandbox.Result{
		"longer check": func(in sandbox.Input) sandbox.Result {
			require.Equal(t, []json.RawMessage{json.RawMessage(`"xx"`), json.RawMessage(`"xx"`), json.RawMessage(`"xx"`)}[:len(in.Args)],
				in.Args)
			return returns("true")
		},
		"no check":   func(sandbox.Input) sandbox.Result { return returns("false") },
		"text check": func(sandbox.Input) sandbox.Result { return returns(`"yes"`) },
		"fail check": func(sandbox.Input) sandbox.Result {
			return sandbox.Result{Status: sandbox.RTE, Stderr: "Traceback\n  …\nValueError: x\n"}
		},
	}}
	for _, tt := range []struct {
		checker, code string
		want          Verdict
		note          string
	}{
		{"longer ", "echo", AC, ""}, {"no ", "echo", WA, ""}, {"longer ", "crash", RTE, ""},
		{"text ", "echo", WA, "checker: it returned yes, expected True or False"},
		{"fail ", "echo", WA, "checker: RTE ValueError: x"},
	} {
		p := data.Problem{ID: "p", Kind: data.Stdin, Checker: tt.checker}.WithTests(data.Test{Stdin: "xx", Stdout: "xx"})
		j := NewJudge(correct(t), submissions, trusted, nil)
		s := grade(t, j, Completion{Problem: &p, Text: fenced(tt.code)})
		require.Equal(t, tt.want, s.Verdict)
		require.Equal(t, tt.note, s.Note)
		require.Equal(t, tt.note != "", j.Stats().CheckerErrors == 1)
	}
	trusted.broken = 1
	p := data.Problem{ID: "p", Kind: data.Stdin, Checker: "longer "}.WithTests(data.Test{Stdin: "xx", Stdout: "xx"})
	require.Equal(t, ExcludedInfra,
		grade(t, NewJudge(correct(t), submissions, trusted, nil), Completion{Problem: &p, Text: fenced("echo")}).Excluded)
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

func TestCustomReward(t *testing.T) {
	f := newFake()
	file := &fake{programs: map[string]func(sandbox.Input) sandbox.Result{
		"compute_reward": func(in sandbox.Input) sandbox.Result {
			var text, truth string
			require.NoError(t, json.Unmarshal(in.Args[0], &text))
			require.NoError(t, json.Unmarshal(in.Args[1], &truth))
			switch text {
			case "fail":
				return sandbox.Result{Status: sandbox.RTE, Stderr: "KeyError: 'x'"}
			case "nothing":
				return sandbox.Result{Status: sandbox.OK}
			}
			if text == truth {
				return returns("0.75")
			}
			return returns("-1")
		},
	}}
	j := NewJudge(Rules{Weights: Weights{Custom: 2}}, f, nil, file)
	p := data.Problem{ID: "p", Kind: data.Stdin,
		Metadata: json.RawMessage(`{"ground_truth":"42"}`)}.WithTests(data.Test{Stdin: "1", Stdout: "1"})
	require.Equal(t, 1.5, grade(t, j, Completion{Problem: &p, Text: "42"}).Reward)
	require.Equal(t, -2.0, grade(t, j, Completion{Problem: &p, Text: "43"}).Reward)
	require.Equal(t, 0.0, grade(t, j, Completion{Problem: &p, Text: "nothing"}).Reward)
	s := grade(t, j, Completion{Problem: &p, Text: "fail"})
	require.Equal(t, 0.0, s.Reward)
	require.Equal(t, "reward file: RTE KeyError: 'x'", s.Note)
	require.Equal(t, Stats{Graded: 4, CustomErrors: 2, LastCustomError: s.Note}, j.Stats())

	p.Metadata = nil // the tests are the truth then
	s = grade(t, j, Completion{Problem: &p, Text: `[{"stdin":"1","stdout":"1"}]`})
	require.Equal(t, 0.75, s.Components.Custom)
	s = grade(t, j, Completion{Problem: &p, Text: fenced("echo")})
	require.Equal(t, Components{Compile: 1, Fraction: 1, Correct: 1, Custom: -1}, s.Components, "all components, whatever the weights")

	file.broken = 1
	require.Equal(t, ExcludedInfra, grade(t, j, Completion{Problem: &p, Text: "42"}).Excluded)
}

func TestGroups(t *testing.T) {
	f := newFake()
	j := NewJudge(correct(t), f, nil, nil)
	grade(t, j, Completion{Problem: echoProblem("p", 1), Text: fenced("echo")})
	grade(t, j, Completion{Problem: echoProblem("p", 2), Group: "step 3, p", Text: fenced("echo")})
	require.Equal(t, []string{"p", "step 3, p"}, f.groups)
}

func TestVerdictsAreRemembered(t *testing.T) {
	f := newFake()
	j := NewJudge(correct(t), f, nil, nil)
	p := echoProblem("p", 3)
	first := grade(t, j, Completion{Problem: p, Text: fenced("wrong on xx")})
	require.False(t, first.Cached)
	again := grade(t, j, Completion{Problem: p, Text: "Or rather:\n" + fenced("wrong on xx")})
	require.True(t, again.Cached)
	again.Cached = false
	require.Equal(t, first, again)
	require.EqualValues(t, 3, f.runs.Load())
	require.EqualValues(t, 1, j.Stats().Cached)

	for _, change := range []func(*data.Problem){
		func(p *data.Problem) { *p = p.WithTests(data.Test{Stdin: "x", Stdout: "y"}) },
		func(p *data.Problem) { p.TimeMS = 1 },
		func(p *data.Problem) { p.MemoryMB = 1 },
		func(p *data.Problem) { p.Tolerance = 1 },
		func(p *data.Problem) { p.FuncName = "f" },
	} {
		other := *p
		change(&other)
		require.False(t, grade(t, j, Completion{Problem: &other, Text: fenced("wrong on xx")}).Cached)
	}
}

// A broken sandbox is no zero: the completion is left out, nothing is remembered, and too many stop
// the run.
func TestInfra(t *testing.T) {
	f := newFake()
	f.broken = 1
	rules := correct(t)
	rules.InfraLimit = 3
	j := NewJudge(rules, f, nil, nil)
	c := Completion{Problem: echoProblem("p", 2), Text: fenced("echo")}
	s := grade(t, j, c)
	require.Equal(t, ExcludedInfra, s.Excluded)
	require.Equal(t, INFRA, s.Verdict)
	require.Contains(t, s.Note, "the cell is gone")
	require.Equal(t, 1.0, grade(t, j, c).Reward, "tried anew")

	f.broken = 1000
	c.Problem = echoProblem("q", 3)
	for range 2 {
		require.Equal(t, ExcludedInfra, grade(t, j, c).Excluded)
	}
	for range 2 {
		_, err := j.Grade(t.Context(), c)
		var stop *InfraError
		require.ErrorAs(t, err, &stop)
		require.Equal(t, 4, stop.Failed)
		require.ErrorContains(t, err,
			"for 4 of the last 5 completions, at last with: sandbox failed 3 times in a row: the cell is gone; run 'grpo doctor'")
	}
	require.EqualValues(t, 4, j.Stats().Infra)
}

// A failure here and there over a long run is no reason to stop.
func TestInfraFarApart(t *testing.T) {
	w := infraWatch{limit: 1}
	for i := range 40 * infraWindow {
		s := Score{}
		if i%infraWindow == 0 {
			s.Excluded = ExcludedInfra
		}
		require.NoError(t, w.note(s))
	}
	require.NoError(t, w.note(Score{Excluded: ExcludedInfra}), "the one before left the window")
	require.Error(t, w.note(Score{Excluded: ExcludedInfra}))
	require.Error(t, w.stopped())
}

func TestTestsThatCannotBeFetched(t *testing.T) {
	p := data.Problem{ID: "p", Kind: data.Stdin}.WithLoader(1, brokenLoader{})
	_, err := NewJudge(correct(t), newFake(), nil, nil).Grade(t.Context(), Completion{Problem: &p, Text: fenced("echo")})
	require.EqualError(t, err, "problem p: disk gone")

	p = data.Problem{ID: "p", Kind: data.Stdin}.WithLoader(1, emptyLoader{})
	_, err = NewJudge(correct(t), newFake(), nil, nil).Grade(t.Context(), Completion{Problem: &p, Text: fenced("echo")})
	require.EqualError(t, err, "problem p: there are no tests to judge by")
}

type emptyLoader struct{}

func (emptyLoader) LoadTests(context.Context) ([]data.Test, error) { return nil, nil }

type brokenLoader struct{}

func (brokenLoader) LoadTests(context.Context) ([]data.Test, error) {
	return nil, errors.New("disk gone")
}

// Scores come in the order of the completions, whichever is done first, and early ones are not held
// up by completions that are still to come.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.programs["sleep\n"] = func(in sandbox.Input) sandbox.Result { time.Sleep(time.Hour); return echo(in) }
		j := NewJudge(correct(t), f, nil, nil)
		in := make(chan Completion)
		start := time.Now()
		go func() {
			in <- Completion{Problem: echoProblem("a", 1), Text: fenced("sleep")}
			in <- Completion{Problem: echoProblem("b", 1), Text: fenced("empty")}
			time.Sleep(2 * time.Hour)
			in <- Completion{Problem: echoProblem("c", 1), Text: fenced("echo")}
			close(in)
		}()
		var rewards []float64
		var at []time.Duration
		for s, err := range Stream(t.Context(), j, in, 8) {
			require.NoError(t, err)
			rewards, at = append(rewards, s.Score.Reward), append(at, time.Since(start))
		}
		require.Equal(t, []float64{1, 0, 1}, rewards)
		require.Equal(t, []time.Duration{time.Hour, time.Hour, 2 * time.Hour}, at)
	})
}

func TestStreamBoundsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		under, most := 0, 0
		f.programs["count\n"] = func(in sandbox.Input) sandbox.Result {
			f.mu.Lock()
			under++
			most = max(most, under)
			f.mu.Unlock()
			time.Sleep(time.Second)
			f.mu.Lock()
			under--
			f.mu.Unlock()
			return echo(in)
		}
		in := make(chan Completion, 20)
		for i := range 20 { // no two alike, or they would be run once for all
			text := strconv.Itoa(i)
			p := data.Problem{ID: text, Kind: data.Stdin}.WithTests(data.Test{Stdin: text, Stdout: text})
			in <- Completion{Problem: &p, Text: fenced("count")}
		}
		close(in)
		n := 0
		for _, err := range Stream(t.Context(), NewJudge(correct(t), f, nil, nil), in, 4) {
			require.NoError(t, err)
			n++
		}
		require.Equal(t, 20, n)
		require.Equal(t, 4, most)
	})
}

func TestStreamCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.slots = make(chan struct{}) // nobody ever gets a turn
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("enough")
		go func() { time.Sleep(time.Minute); cancel(stop) }()
		_, err := All(ctx, NewJudge(correct(t), f, nil, nil),
			[]Completion{{Problem: echoProblem("a", 1), Text: fenced("echo")}, {Problem: echoProblem("b", 1), Text: fenced("echo")}})
		require.ErrorIs(t, err, stop)
	})
}
