package stats

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAlikeEvaluations(t *testing.T) {
	of := func(step, problems int, judged ...string) Outcome {
		return Outcome{Step: step, Problems: problems, Value: float64(step) / 10, Judged: Judged{Problems: judged}}
	}
	for _, c := range []struct {
		a, b  Outcome
		alike bool
	}{
		{of(0, 3, "a", "b", "c"), of(1, 3, "a", "b", "c"), true},
		{of(0, 3, "a", "b", "c"), of(1, 3, "c", "b"), true}, // a was not judged
		{of(0, 3, "a", "b", "c"), of(1, 3), true},           // unknown
		{of(0, 3, "a", "b", "c"), of(1, 3, "c", "d", "e"), false},
		{of(0, 3, "a", "b", "c"), of(1, 4, "a", "b", "c"), false}, // the fourth was not judged
		{of(0, 3), of(1, 4), false},
	} {
		require.Equal(t, c.alike, c.a.SameProblems(c.b))
		require.Equal(t, c.alike, c.b.SameProblems(c.a))
	}
	self := func(o *Outcome) Outcome { return *o }
	all := []Outcome{of(1, 2, "a", "b"), of(2, 2, "c", "d"), of(3, 2, "b", "a")}
	require.Equal(t, []map[int]float64{{1: 0.1, 3: 0.3}, {2: 0.2}}, BySet(all, self))
	require.Empty(t, BySet(nil, self))
}
