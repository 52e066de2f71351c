package reward

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Assertions are tests like others: each has a verdict, a faulty one is reported, and equal programs run once.
func TestAssertions(t *testing.T) {
	j, err := Open(t.Context(), Config{Slots: 1, Sessions: 1, Reward: "fraction"})
	if badinput.Is(err) {
		t.Skip(err)
	}
	require.NoError(t, err)
	defer j.Close()
	p := data.Problem{ID: "p", Kind: data.Assert, FuncName: "f"}.WithTests(data.Test{Assert: "assert f(1) == 2"},
		data.Test{Assert: "assert f(2) == 3"},
		data.Test{Assert: "assert f(3) ==="})
	s, err := j.Grade(t.Context(), Completion{Problem: &p, Text: "def f(x): return 2", Bare: true})
	require.NoError(t, err)
	require.Equal(t, []Verdict{AC, WA, WA}, s.Tests)
	require.Equal(t, []any{WA, 1, 3, 1.0 / 3, 1.0}, []any{s.Verdict, s.Passed, s.Total, s.Components.Fraction, s.Components.Compile})
	require.True(t, s.CheckerFailed())
	require.Contains(t, j.Warnings()[0], "the test itself: ")
	again, err := j.Grade(t.Context(), Completion{Problem: &p, Text: "def f(x): return 2", Bare: true})
	require.NoError(t, err)
	require.True(t, again.Cached)
	seen, err := j.See(t.Context(), "g", &p, "def f(x) return")
	require.NoError(t, err)
	require.Equal(t, CE, seen[0].Verdict)

	_, err = NewJudge(Rules{}, &fake{}, nil, nil).Grade(t.Context(), Completion{Problem: &p, Text: "x = 1", Bare: true})
	require.ErrorContains(t, err, "its tests are assertions")
}
