package reward

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/match"
)

// A problem that does not ask for a program is judged by the text of the completion; nothing is run.
func TestAnswersNeedNoSandbox(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no python3
	cfg := Config{Reward: "weights", Weights: "correct=1,fraction=0.5,format=0.1", Answers: true, Python: "python-that-is-not-there"}
	j, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	defer j.Close()
	require.Equal(t, "none", j.Backend().Kind)

	half := data.Problem{ID: "p", Kind: data.Answer, Match: match.Math}.WithTests(
		data.Test{Match: data.Match{By: match.Math, Want: "1/2"}})
	s := grade(t, j, Completion{Problem: &half, Text: `So it is \boxed{0.5}.`})
	right := Score{Reward: 1.5, Components: Components{Correct: 1, Fraction: 1}, Verdict: AC, Passed: 1, Total: 1, Tests: []Verdict{AC}}
	require.Equal(t, right, s)
	s = grade(t, j, Completion{Problem: &half, Text: `So it is \boxed{0.6}.`})
	require.Equal(t, Score{Verdict: WA, Total: 1, Tests: []Verdict{WA}}, s)
	s = grade(t, j, Completion{Problem: &half, Text: "I do not know."})
	require.Equal(t, Score{Reward: -0.1, Components: Components{Format: -1}, Total: 1}, s)

	words := data.Problem{ID: "q", Kind: data.Answer, Match: match.Regex}.WithTests(
		data.Test{Match: data.Match{By: match.Regex, Want: "(?i)paris"}}, data.Test{Match: data.Match{By: match.Regex, Want: "^[^ ]*$"}})
	s = grade(t, j, Completion{Problem: &words, Text: "It is Paris"})
	require.Equal(t, []Verdict{AC, WA}, s.Tests)
	require.Equal(t, 0.25, s.Reward)
	require.Equal(t, 1.0, grade(t, j, Completion{Problem: &words, Text: "Paris"}).Components.Correct)

	require.Empty(t, j.tester.sets.open, "the set must be released")

	truth, err := groundTruth(t.Context(), &half)
	require.NoError(t, err)
	require.Equal(t, "1/2", truth)
	truth, err = groundTruth(t.Context(), &words)
	require.NoError(t, err)
	require.JSONEq(t, `[{"regex":"(?i)paris"},{"regex":"^[^ ]*$"}]`, truth, "all that is wanted, where that is several")
	_, err = j.See(t.Context(), "", &half, "print(1)")
	require.ErrorContains(t, err, "has no tests for programs")
}
