package objective

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// step is two groups; the completions have 2, 1, 3 and 1 tokens.
func step() []Group {
	return []Group{
		{Name: "a", Samples: []Sample{{Reward: 1, Tokens: 2, KL: []float64{0.1, 0.2}}, {Reward: 0, Tokens: 1, KL: []float64{-0.3}}}},
		{Name: "b", Samples: []Sample{{Reward: 3, Tokens: 3, KL: []float64{0, 1, 0.5}}, {Reward: 2, Tokens: 1, KL: []float64{0.4}}}},
		{Name: "nothing was scored"},
	}
}

func TestWithinGroups(t *testing.T) {
	require.Equal(t, []float64{-1, 0, 1}, Mean([]float64{1, 2, 3}))
	require.InDeltaSlice(t, []float64{-math.Sqrt(1.5), 0, math.Sqrt(1.5)}, Std([]float64{1, 2, 3}), 1e-12)
	require.InDeltaSlice(t, []float64{1 - 2.5, 0, 3 - 1.5}, LeaveOneOut([]float64{1, 2, 3}), 1e-12)
	require.Equal(t, []float64{0}, LeaveOneOut([]float64{7}))

	a, err := Comparison{Within: Mean, Shaping: Shaping{KL: 0.5}}.Of(step())
	require.NoError(t, err)
	require.Nil(t, a.Tokens)
	first := (1 - 0.5*0.3) - (0 + 0.5*0.3)
	require.InDeltaSlice(t, []float64{first / 2, -first / 2}, a.Samples[0], 1e-12)
	second := (3 - 0.5*1.5) - (2 - 0.5*0.4)
	require.InDeltaSlice(t, []float64{second / 2, -second / 2}, a.Samples[1], 1e-12)
	require.Empty(t, a.Samples[2])
}

func TestAnOwnComparisonIsHeldToNumbers(t *testing.T) {
	for want, f := range map[string]func([]float64) []float64{
		"problem a: 1 advantages for 2 rewards, expected one for each":        func([]float64) []float64 { return []float64{1} },
		"problem a: an advantage of NaN for a reward of 1, expected a number": func([]float64) []float64 { return []float64{math.NaN(), 1} },
	} {
		_, err := Comparison{Within: f}.Of(step())
		require.EqualError(t, err, want)
	}
}

// Normalised over a step, a token is compared with all others, so that long completions weigh more.
func TestOverTheStep(t *testing.T) {
	for _, baseline := range []bool{false, true} {
		rewards := []float64{1, 0, 3, 2}
		if baseline {
			rewards = []float64{0.5, -0.5, 0.5, -0.5}
		}
		a, err := Comparison{Baseline: baseline}.Of(step())
		require.NoError(t, err)
		require.Nil(t, a.Tokens)
		mean := (2*rewards[0] + rewards[1] + 3*rewards[2] + rewards[3]) / 7
		square := func(r float64) float64 { return (r - mean) * (r - mean) }
		std := math.Sqrt((2*square(rewards[0]) + square(rewards[1]) + 3*square(rewards[2]) + square(rewards[3])) / 7)
		require.InDeltaSlice(t, []float64{(rewards[0] - mean) / std, (rewards[1] - mean) / std}, a.Samples[0], 1e-12)
		require.InDeltaSlice(t, []float64{(rewards[2] - mean) / std, (rewards[3] - mean) / std}, a.Samples[1], 1e-12)
	}

	alike := []Group{{Samples: []Sample{{Reward: 0.3, Tokens: 2}, {Reward: 0.3, Tokens: 5}}}}
	a, err := Comparison{}.Of(alike)
	require.NoError(t, err)
	require.Equal(t, [][]float64{{0, 0}}, a.Samples)
	_, err = Comparison{}.Of(nil)
	require.NoError(t, err)

	a, err = Comparison{}.Of([]Group{{Samples: []Sample{{Reward: 1, Tokens: 1}, {Reward: 5}, {Reward: 0, Tokens: 1}}}})
	require.NoError(t, err)
	require.Equal(t, [][]float64{{1, 0, -1}}, a.Samples, "a completion without tokens counts for nothing")
}

// A divergence counts against the tokens up to it.
func TestReturnsToGo(t *testing.T) {
	a, err := Comparison{Shaping: Shaping{KL: 2}}.Of(step())
	require.NoError(t, err)
	returns := []float64{1 - 2*0.3, 1 - 2*0.2, 0 + 2*0.3, 3 - 2*1.5, 3 - 2*1.5, 3 - 2*0.5, 2 - 2*0.4}
	mean, square := 0.0, 0.0
	for _, r := range returns {
		mean += r / 7
	}
	for _, r := range returns {
		square += (r - mean) * (r - mean) / 7
	}
	want := make([]float64, 7)
	for i, r := range returns {
		want[i] = (r - mean) / math.Sqrt(square)
	}
	require.InDeltaSlice(t, want[:2], a.Tokens[0][0], 1e-12)
	require.InDeltaSlice(t, want[2:3], a.Tokens[0][1], 1e-12)
	require.InDeltaSlice(t, want[3:6], a.Tokens[1][0], 1e-12)
	require.InDelta(t, (want[0]+want[1])/2, a.Samples[0][0], 1e-12, "a sample's advantage is the mean of its tokens'")
}

func TestBounds(t *testing.T) {
	a, err := Comparison{Within: Mean, Bound: 0.4, Shaping: Shaping{Clip: 2}}.Of(step())
	require.NoError(t, err)
	require.Equal(t, [][]float64{{0.4, -0.4}, {0, 0}, nil}, a.Samples)
	require.Equal(t, []float64{0.25, 0.5}, []float64{a.Clipped, a.Bounded}, "the shares of clipped and of bounded advantages")
	a, err = Comparison{Bound: 0.5, Shaping: Shaping{KL: 2}}.Of(step())
	require.NoError(t, err)
	for _, group := range a.Tokens {
		for _, tokens := range group {
			for _, x := range tokens {
				require.LessOrEqual(t, math.Abs(x), 0.5)
			}
		}
	}
}

// The soft length penalty of DAPO: none up to its buffer, the full one at the end.
func TestOverlong(t *testing.T) {
	s := Shaping{Longest: 20, Buffer: 4, Penalty: 2}
	for tokens, want := range map[int]float64{1: 0, 16: 0, 17: 0.5, 18: 1, 20: 2, 25: 2} {
		require.InDelta(t, want, s.Overlong(tokens), 1e-12, tokens)
	}
	a, err := Comparison{Within: Mean, Shaping: Shaping{Longest: 3, Buffer: 2, Penalty: 1}}.Of(step())
	require.NoError(t, err)
	require.InDeltaSlice(t, []float64{0.25, -0.25}, a.Samples[0], 1e-12)
	require.InDelta(t, (0.5+1)/4, a.Overlong, 1e-12)
}

// A custom function may reuse its slice for every group: each group keeps its own advantages.
func TestAnOwnComparisonMayUseItsMemoryAgain(t *testing.T) {
	memory := make([]float64, 2)
	again := func(rewards []float64) []float64 { return memory[:copy(memory, Mean(rewards))] }
	groups := []Group{{Samples: []Sample{{Reward: 1}, {Reward: 0}}}, {Samples: []Sample{{Reward: 1}, {Reward: 9}}}}
	a, err := Comparison{Within: again}.Of(groups)
	require.NoError(t, err)
	require.Equal(t, [][]float64{{0.5, -0.5}, {-4, 4}}, a.Samples)
}

// Shares count the values that a bound has changed, on both sides, but not values on it.
func TestSharesOfWhatWasBounded(t *testing.T) {
	c := Comparison{Shaping: Shaping{Clip: 2}, Within: Mean, Bound: 2}
	a, err := c.Of([]Group{{Samples: []Sample{{Reward: -5}, {Reward: 2}}}})
	require.NoError(t, err)
	require.Equal(t, []float64{-2, 2}, a.Samples[0])
	require.Equal(t, []float64{0.5, 0}, []float64{a.Clipped, a.Bounded})

	a, err = Comparison{Within: Mean}.Of(step())
	require.NoError(t, err)
	require.Equal(t, []float64{0, 0}, []float64{a.Clipped, a.Bounded}, "without bounds nothing is beyond them")
}
