package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPassAtK(t *testing.T) {
	require.InDelta(t, 0.3, PassAtK(10, 3, 1), 1e-12)
	require.InDelta(t, 1-(7.0/10)*(6.0/9), PassAtK(10, 3, 2), 1e-12)
	require.Equal(t, 1.0, PassAtK(4, 2, 3))
	require.Zero(t, PassAtK(4, 0, 4))
	require.True(t, math.IsNaN(PassAtK(3, 1, 4)), "k is never lowered")
	require.True(t, math.IsNaN(PassAtK(3, 1, 0)))
}

func TestTheIntervalHoldsTheMean(t *testing.T) {
	x := []float64{0, 1, 1, 0, 1, 1, 1, 0}
	ci := Interval(x, 3)
	require.Equal(t, ci, Bootstrap(x, 3), "the interval is the same every time")
	require.Less(t, ci[0], Mean(x))
	require.Greater(t, ci[1], Mean(x))
	require.Zero(t, Mean(nil))
}

// No number of problems proves 0 % or 100 %, and 0 problems prove nothing.
func TestNoIntervalIsAPoint(t *testing.T) {
	same := func(n int, v float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = v
		}
		return x
	}
	require.Equal(t, [2]float64{0, 1}, Interval(nil, 3))
	for n, want := range map[int]float64{1: 0.793, 4: 0.490, 20: 0.161, 128: 0.029} {
		ci := Interval(same(n, 0), 3)
		require.Zero(t, ci[0])
		require.InDelta(t, want, ci[1], 5e-4, "%d", n) // as in published tables
		ci = Interval(same(n, 1), 3)
		require.InDelta(t, 1-want, ci[0], 5e-4)
		require.Equal(t, 1.0, ci[1])
	}
}

// Unknown values are null and not 0; known ones are numbers.
func TestUnknownSharesAreNull(t *testing.T) {
	text, err := json.Marshal(Sampled{K: 4, PassAtK: MeanShare(nil), BestOfK: MeanShare([]float64{0, 0.5}), LeftOut: 3})
	require.NoError(t, err)
	require.Equal(t, `{"k":4,"pass@1":0,"pass@k":null,"best_of_k":0.25,"k_left_out":3}`, string(text))
	var again Sampled
	require.NoError(t, json.Unmarshal(text, &again))
	require.True(t, math.IsNaN(float64(again.PassAtK)))
	require.Equal(t, Share(0.25), again.BestOfK)
	require.Equal(t, "unknown", again.AtK(3))
	require.Error(t, json.Unmarshal([]byte(`{"pass@k":"x"}`), &again))
}

func judged(step int, correct ...float64) Judged {
	j := Judged{Step: step, Correct: correct}
	for i := range correct {
		j.Problems = append(j.Problems, fmt.Sprint("p", i))
	}
	return j
}

// Problems that are right before and after do not show a change: pairs say more than two separate intervals.
func TestChangesAreOfPairs(t *testing.T) {
	before, after := make([]float64, 100), make([]float64, 100)
	for i := range before {
		before[i], after[i] = float64(i%2), float64(i%2)
		if i%10 == 0 {
			after[i] = 1
		}
	}
	c := Compare(judged(0, before...), judged(9, after...))
	require.Equal(t, 100, c.Problems)
	require.InDelta(t, 0.1, c.Mean, 1e-12)
	require.True(t, c.Sure())
	require.Greater(t, Interval(before, 0)[1], Interval(after, 0)[0], "the intervals of the two overlap")
	require.Regexp(t, `^\+0\.100 \[\+0\.0\d\d, \+0\.1\d\d\] since step 0, more than chance$`, c.String())
	require.Equal(t, c, Compare(judged(0, before...), judged(9, after...)), "the interval is the same every time")

	back := Compare(judged(9, after...), judged(12, before...))
	require.InDelta(t, -0.1, back.Mean, 1e-12)
	require.True(t, back.Sure())
}

func TestWhatAChangeIsWorth(t *testing.T) {
	zeros, ones := make([]float64, 30), make([]float64, 30)
	for i := range ones {
		ones[i] = 1
	}
	c := Compare(judged(0, zeros...), judged(5, zeros...))
	require.Equal(t, "+0.000 [-0.114, +0.114] since step 0, may be chance", c.String(), "an observed change of 0 is no proof")
	c = Compare(judged(0, zeros...), judged(5, ones...))
	require.Equal(t, "+1.000 [+0.886, +1.000] since step 0, more than chance", c.String())
	c = Compare(judged(0, ones...), judged(5, zeros...))
	require.Equal(t, "-1.000 [-1.000, -0.886] since step 0, more than chance", c.String())
	c = Compare(judged(0, zeros[:19]...), judged(5, ones[:19]...))
	require.Equal(t, "19 problems are too few to say", c.Verdict())
	require.Equal(t, 19, Compare(judged(0, zeros[:19]...), judged(5, ones...)).Problems, "only problems of both evaluations are compared")
	require.Nil(t, Compare(Judged{}, judged(5, ones...)))
	require.Nil(t, Compare(Judged{Problems: []string{"a"}}, Judged{Problems: []string{"a"}}), "a line that is not whole")
}

func TestShareText(t *testing.T) {
	require.Equal(t, "0.250 [0.100, 0.500]", ShareText(0.25, [2]float64{0.1, 0.5}))
	require.Equal(t, "0.000 [0.000, 0.161]", ShareText(0, Wilson(0, 20)))
	require.Equal(t, "not judged", ShareText(Mean(nil), Interval(nil, 1)))
}
