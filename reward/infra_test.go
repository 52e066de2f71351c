package reward

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
)

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
		require.NoError(t, w.note(i%infraWindow == 0, "x"))
	}
	require.NoError(t, w.note(true, "x"), "the one before left the window")
	require.Error(t, w.note(true, "x"))
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

type brokenLoader struct{}
