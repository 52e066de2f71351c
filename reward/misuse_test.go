package reward

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
)

// Arguments that are missing are named, before other goroutines use them.
func TestArgumentsThatAreMissing(t *testing.T) {
	var nothing context.Context
	ctx, j := t.Context(), NewJudge(correct(t), newFake(), nil, nil)
	for what, call := range map[string]func(){
		"reward.Open: the argument ctx is nil":           func() { _, _ = Open(nothing, Config{}) },
		"reward.Stream: the argument g is nil":           func() { _, _ = All(ctx, nil, []Completion{{}}) },
		"reward.GraderFunc.Grade: the argument f is nil": func() { _, _ = GraderFunc(nil).Grade(ctx, Completion{}) },
		"reward.Judge.Grade: the argument j is nil":      func() { _, _ = (*Judge)(nil).Grade(ctx, Completion{}) },
		"reward.Judge.Grade: the argument problem is":    func() { _, _ = j.Grade(ctx, Completion{Text: "x"}) },
		"reward.Finite: the argument g is nil":           func() { Finite(nil) },
		"reward.Blocking: the argument g is nil":         func() { Blocking((*Judge)(nil), nil, true) },
		"reward.Judge.See: the argument problem is nil":  func() { _, _ = j.See(ctx, "", nil, "x") },
	} {
		func() {
			defer func() { require.Contains(t, recover(), what) }()
			call()
		}()
	}
}

// A judge without a runner for what a problem asks for says which one it lacks.
func TestJudgesWithoutARunner(t *testing.T) {
	p := echoProblem("p", 1)
	_, err := NewJudge(correct(t), nil, nil, nil).Grade(t.Context(), Completion{Problem: p, Text: fenced("echo")})
	require.ErrorContains(t, err, "problem p: the judge has no runner for programs of the model; give reward.NewJudge submissions")

	checked := *p
	checked.Checker = "def check(input, output, expected): return True"
	j := NewJudge(correct(t), newFake(), nil, nil)
	_, err = j.Grade(t.Context(), Completion{Problem: &checked, Text: fenced("echo")})
	require.ErrorContains(t, err, "give reward.NewJudge a trusted one")
	_, err = j.CheckerFaults(t.Context(), []data.Problem{checked})
	require.ErrorContains(t, err, "give reward.NewJudge a trusted one")
	require.NotContains(t, strings.Join(j.Warnings(), ""), "checkers failed")
}

// A batch takes as many items as it was made for: the score of one more would wait forever.
func TestABatchThatIsFull(t *testing.T) {
	one := GraderFunc(func(context.Context, Completion) (Score, error) { return Score{Reward: 1}, nil })
	for _, late := range []bool{false, true} {
		b := NewBatch[string](t.Context(), one, 2, late)
		b.Add("a", Completion{})
		b.Settle("b", Score{})
		for _, more := range []func(){func() { b.Add("c", Completion{}) }, func() { b.Settle("c", Score{}) }} {
			require.PanicsWithValue(t, "reward.Batch: the number of items is 3, expected 0 to 2", more)
		}
		b.Close()
		require.PanicsWithValue(t, "reward.Batch.Wait: the argument each is nil, expected a function that is called with every result",
			func() { _, _ = b.Wait(t.Context(), nil) })
		marked, err := b.Wait(t.Context(), func() {})
		require.NoError(t, err)
		require.Len(t, marked, 2)
	}
	require.PanicsWithValue(t, "reward.NewBatch: total is -1, expected 0 to 2147483647", func() { NewBatch[int](t.Context(), one, -1, false) })
	require.Panics(t, func() { NewBatch[int](t.Context(), nil, 1, false) })
}
