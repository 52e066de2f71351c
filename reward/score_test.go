package reward

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

func TestModeWeights(t *testing.T) {
	noCode := Components{Format: -1}
	wrong := Components{Compile: 1, Fraction: 0.25}
	right := Components{Compile: 1, Fraction: 1, Correct: 1}
	for name, want := range map[string][3]float64{"correct": {-0.1, 0, 1}, "fraction": {-0.1, 0.25, 1}, "custom": {0, 0, 0}} {
		w, err := ModeWeights(name)
		require.NoError(t, err)
		require.Equal(t, want, [3]float64{w.Apply(noCode), w.Apply(wrong), w.Apply(right)}, name)
	}
	_, err := ModeWeights("partial")
	require.ErrorContains(t, err, "reward=partial: expected correct, fraction, custom or weights")
	require.True(t, badinput.Is(err))
}

func TestParseWeights(t *testing.T) {
	w, err := ParseWeights("correct=1, format=0.1,length=-0.05,compile=.2,fraction=0.5,custom=2")
	require.NoError(t, err)
	require.Equal(t, Weights{Format: 0.1, Compile: 0.2, Fraction: 0.5, Correct: 1, Length: -0.05, Custom: 2}, w)
	require.Equal(t, 1+0.2+0.25-0.025+2*3-0.1,
		w.Apply(Components{Format: -1, Compile: 1, Fraction: 0.5, Correct: 1, Length: 0.5, Custom: 3}))
	for text, message := range map[string]string{
		"":                    `component "": expected format`,
		"correct":             `"correct": expected a number`,
		"correct=1,correct=2": `component "correct": expected format, compile, fraction, correct, length, custom or judge, each once`,
		"style=1":             `component "style"`,
		"correct=nan":         `"correct=nan": expected a number`,
		"correct=1e999":       `expected a number`,
		"correct=-inf":        `"correct=-inf": expected a number`,
	} {
		_, err := ParseWeights(text)
		require.ErrorContains(t, err, message)
		require.True(t, badinput.Is(err))
	}
}

func TestScoreJSON(t *testing.T) {
	text, err := json.Marshal(Score{Reward: 1, Verdict: WA, Passed: 1, Total: 2, Tests: []Verdict{AC, WA}, CPU: 12345678 * time.Nanosecond})
	require.NoError(t, err)
	require.JSONEq(t, `{"reward":1,"components":{"format":0,"compile":0,"fraction":0,"correct":0,"length":0,"custom":0},
		"verdict":"WA","passed":1,"total":2,"tests":["AC","WA"],"cpu_ms":12.35}`, string(text))

	text, err = json.Marshal(Score{Verdict: INFRA, Excluded: ExcludedInfra})
	require.NoError(t, err)
	require.Contains(t, string(text), `"reward":null`)
}

// The means are those of components with a weight, over the scores that are not excluded.
func TestMeansOfComponents(t *testing.T) {
	w, err := ParseWeights("correct=1,length=-0.5,custom=0,judge=2")
	require.NoError(t, err)
	scores := []Score{
		{Components: Components{Correct: 1, Length: 0.5, Custom: 9, Judge: 0.25}},
		{Components: Components{Length: 1, Judge: 0.75}},
		{Components: Components{Correct: 1, Length: 1, Judge: 1}, Excluded: ExcludedInfra},
	}
	require.Equal(t, map[string]float64{"correct": 0.5, "length": 0.75, "judge": 0.5}, w.Means(slices.Values(scores)))
	require.Equal(t, 1-0.25+0.5, w.Apply(scores[0].Components))
	require.Empty(t, w.Means(slices.Values[[]Score](nil)))
	text, err := json.Marshal(Components{})
	require.NoError(t, err)
	require.NotContains(t, string(text), "judge", "records of runs without a judge are as they were")
}
