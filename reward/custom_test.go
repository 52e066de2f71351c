package reward

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

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
		require.Equal(t, tt.note != "", s.CheckerFailed())
		var told []string
		if _, how, failed := strings.Cut(tt.note, ": "); failed {
			told = []string{"checkers failed on 1 answers, which count as wrong; the first time: " + how}
		}
		require.Equal(t, told, j.Warnings())
		require.Empty(t, j.Warnings(), "each warning is given once")
	}
	trusted.broken = 1
	p := data.Problem{ID: "p", Kind: data.Stdin, Checker: "longer "}.WithTests(data.Test{Stdin: "xx", Stdout: "xx"})
	require.Equal(t, ExcludedInfra,
		grade(t, NewJudge(correct(t), submissions, trusted, nil), Completion{Problem: &p, Text: fenced("echo")}).Excluded)
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
	s := grade(t, j, Completion{Problem: &p, Text: "nothing"})
	require.Equal(t, ExcludedCustom, s.Excluded)
	require.Equal(t, "reward file: no value", s.Note)
	s = grade(t, j, Completion{Problem: &p, Text: "fail"})
	require.Equal(t, ExcludedCustom, s.Excluded, "excluded, and not scored 0")
	require.Equal(t, "reward file: RTE KeyError: 'x'", s.Note)
	require.Equal(t, Stats{Graded: 4, CustomErrors: 2, LastCustomError: s.Note}, j.Stats())

	p.Metadata = nil // then the ground truth is the tests
	s = grade(t, j, Completion{Problem: &p, Text: `[{"stdin":"1","stdout":"1"}]`})
	require.Equal(t, 0.75, s.Components.Custom)
	s = grade(t, j, Completion{Problem: &p, Text: fenced("echo")})
	require.Equal(t, Components{Compile: 1, Fraction: 1, Correct: 1, Custom: -1}, s.Components, "components do not depend on the weights")

	file.broken = 1
	require.Equal(t, ExcludedInfra, grade(t, j, Completion{Problem: &p, Text: "42"}).Excluded)
}

// An answer that does not cover every checker is an error, and says nothing about any of them.
func TestCheckersThatCannotBeLookedAt(t *testing.T) {
	f := newFake()
	j := NewJudge(correct(t), newFake(), f, nil)
	problems := []data.Problem{{Checker: "a"}, {Checker: "b"}}
	for _, answer := range []string{`["", "", ""]`, `[""]`, `"no"`} {
		f.programs[checkerFaults+"faults"] = func(sandbox.Input) sandbox.Result { return returns(answer) }
		_, err := j.CheckerFaults(t.Context(), problems)
		require.ErrorContains(t, err, "look at the checkers of problems: python answered "+answer+" for 2 checkers")
	}
	f.programs[checkerFaults+"faults"] = func(sandbox.Input) sandbox.Result {
		f.broken = 1 // the next run fails, which checks one of them alone
		return sandbox.Result{Status: sandbox.RTE}
	}
	_, err := j.CheckerFaults(t.Context(), problems)
	require.ErrorContains(t, err, "the cell is gone")
}
