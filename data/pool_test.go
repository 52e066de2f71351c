package data

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

func numbered(n int) []Problem {
	out := make([]Problem, n)
	for i := range out {
		out[i].ID = fmt.Sprint(i)
	}
	return out
}

func newPool(t *testing.T, n int, seed uint64, d Difficulty) *Pool {
	t.Helper()
	p, err := NewPool(numbered(n), seed, d)
	require.NoError(t, err)
	return p
}

func ids(problems []Problem) (out []string) {
	for _, p := range problems {
		out = append(out, p.ID)
	}
	return out
}

// The orders are pinned: a change of the generator would change every run's data.
func TestPermutationIsPinned(t *testing.T) {
	require.Equal(t, []int{8, 1, 0, 4, 2, 7, 5, 9, 6, 3}, permutation(0, 0, 10))
	require.Equal(t, []int{5, 1, 4, 3, 2, 6, 8, 9, 0, 7}, permutation(0, 1, 10))
	require.Equal(t, []int{6, 1, 4, 7, 0, 8, 3, 9, 5, 2}, permutation(1<<63, 0, 10))
}

// Every position is equally likely for every problem: chi-squared over 2,000 epochs of 10 problems.
func TestPermutationIsUniform(t *testing.T) {
	const n, epochs = 10, 2000
	var counts [n][n]float64
	for e := range uint64(epochs) {
		for place, i := range permutation(7, e, n) {
			counts[place][i]++
		}
	}
	chi := 0.0
	for place := range n {
		for i := range n {
			chi += math.Pow(counts[place][i]-epochs/n, 2) / (epochs / n)
		}
	}
	// 81 degrees of freedom: mean 81, standard deviation 12.7.
	require.InDelta(t, 81, chi, 4*12.7)
}

// Every problem is dealt once an epoch, and never twice in one step, whatever the sizes.
func TestPoolDealsEveryProblemOnceAnEpoch(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 7, 12} {
		for size := 1; size <= n; size++ {
			p := newPool(t, n, 3, Difficulty{})
			counts := map[string]int{}
			for taken := 0; taken < 5*n*size; taken += size {
				subset := ids(p.Take(size))
				require.Len(t, subset, size)
				slices.Sort(subset)
				require.Len(t, slices.Compact(slices.Clone(subset)), size, "%d of %d", size, n)
				for _, id := range subset {
					counts[id]++
				}
			}
			for _, c := range counts {
				require.InDelta(t, 5*size, c, 1, "%d of %d: %v", size, n, counts)
			}
		}
	}
}

func TestPoolSmallerThanASubset(t *testing.T) {
	p := newPool(t, 3, 0, Difficulty{})
	got := ids(p.Take(6))
	slices.Sort(got)
	require.Equal(t, []string{"0", "0", "1", "1", "2", "2"}, got)
}

func TestLessThanNoProblems(t *testing.T) {
	p := newPool(t, 3, 1, Difficulty{})
	require.Empty(t, p.Take(0))
	require.PanicsWithValue(t, "data.Pool.Take: found n=-1, expected a number of problems, 0 or more", func() { p.Take(-1) })
}

func TestSeedAndEpochDecideTheOrder(t *testing.T) {
	a, b := newPool(t, 50, 1, Difficulty{}), newPool(t, 50, 1, Difficulty{})
	first := ids(a.Take(50))
	require.Equal(t, first, ids(b.Take(50)))
	require.NotEqual(t, first, ids(a.Take(50)), "another epoch")
	require.NotEqual(t, first, ids(newPool(t, 50, 2, Difficulty{}).Take(50)), "another seed")
}

// A run that is stopped anywhere and resumed from its cursor is dealt the same problems, with difficulty sampling and across epochs.
func TestCursorResumesExactly(t *testing.T) {
	difficulty := Difficulty{Patience: 2, Keep: 0.3}
	step := func(p *Pool) []string {
		got := ids(p.Take(4))
		for i, id := range got {
			p.Observe(id, []int{0, 8, 8, 3}[(i+len(id))%4], 8)
		}
		return append(append(got, "skipped"), p.Skipped()...)
	}
	straight, broken := newPool(t, 11, 5, difficulty), newPool(t, 11, 5, difficulty)
	skipped := 0
	for range 60 {
		want := step(straight)
		text, err := json.Marshal(broken.Cursor())
		require.NoError(t, err)
		var c Cursor
		require.NoError(t, json.Unmarshal(text, &c))
		if step(broken); straight.Epoch()%2 == 0 { // or the same pool is restored
			broken = newPool(t, 11, 5, difficulty)
		}
		drifted, err := broken.Restore(c)
		require.NoError(t, err)
		require.False(t, drifted)
		require.Equal(t, want, step(broken))
		skipped += len(want) - 5
	}
	require.Positive(t, skipped)
	require.Positive(t, straight.Epoch())
}

// Problems that teach nothing are dealt less often, at about the requested rate, and return at once when a visit gives another result.
func TestDifficultySampling(t *testing.T) {
	p := newPool(t, 40, 9, Difficulty{Patience: 2, Keep: 0.25})
	visits := map[bool]int{}
	for p.Epoch() < 200 {
		for _, q := range p.Take(4) {
			hopeless := len(q.ID) == 1 // ten of the forty
			visits[hopeless]++
			p.Observe(q.ID, map[bool]int{true: 0, false: 3}[hopeless], 8)
		}
	}
	require.InDelta(t, 200*30, visits[false], 4)
	require.InDelta(t, 200*10*0.25, visits[true], 100)

	q := newPool(t, 1, 0, Difficulty{Patience: 1, Keep: 0.01})
	q.Observe("0", 8, 8)
	require.True(t, q.skip(0))
	q.Observe("0", 7, 8)
	require.False(t, q.skip(0))
	q.Observe("0", 0, 0)
	require.False(t, q.skip(0), "a visit without completions does not count")
	for _, solved := range []int{8, 0, 8} {
		q.Observe("0", solved, 8)
		require.True(t, q.skip(0), "%d after what was otherwise", solved)
	}
}

func TestRestoreChecksTheCursor(t *testing.T) {
	p := newPool(t, 10, 1, Difficulty{})
	p.Take(7)
	c := p.Cursor()

	_, err := newPool(t, 10, 2, Difficulty{}).Restore(c)
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, "seed=1")

	smaller := newPool(t, 5, 1, Difficulty{})
	drifted, err := smaller.Restore(c)
	require.NoError(t, err)
	require.True(t, drifted)
	require.Len(t, smaller.Take(3), 3)

	c.Position = 11
	_, err = newPool(t, 10, 1, Difficulty{}).Restore(c)
	require.ErrorContains(t, err, "damaged")
}

func TestNewPoolRefuses(t *testing.T) {
	for _, c := range []struct {
		problems []Problem
		d        Difficulty
	}{
		{nil, Difficulty{}},
		{append(numbered(3), Problem{ID: "1"}), Difficulty{}},
		{numbered(3), Difficulty{Patience: 1}},
		{numbered(3), Difficulty{Patience: 1, Keep: math.NaN()}},
		{numbered(3), Difficulty{Patience: -1, Keep: 1}},
	} {
		_, err := NewPool(c.problems, 0, c.d)
		require.True(t, badinput.Is(err), "%v", err)
	}
}

// A problem that is deferred because the step has it already is dealt once, however often epochs wrap.
func TestNoProblemComesTwiceInASubset(t *testing.T) {
	var problems []Problem
	for i := range 10 {
		problems = append(problems, Problem{ID: fmt.Sprint("p", i)})
	}
	p, err := NewPool(problems, 3, Difficulty{Patience: 1, Keep: 0.05})
	require.NoError(t, err)
	for step := range 60 {
		seen := map[string]bool{}
		for _, problem := range p.Take(4 + step%7) { // up to all of them
			require.False(t, seen[problem.ID], "step %d: %s", step, problem.ID)
			seen[problem.ID] = true
			solved := 1
			if problem.ID == "p8" || problem.ID == "p9" {
				solved = 0
			}
			p.Observe(problem.ID, solved, 1+solved*(step%2)) // most visits give equal results
		}
	}
}
