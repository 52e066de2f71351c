package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Thirty runs are distinguished by color and dashes, their legends are folded, and long names are shortened in the middle.
func TestManyCurves(t *testing.T) {
	names, colors := map[string]bool{}, map[string]bool{}
	chart := CurveChart{Title: "Mean reward"}
	for i := range 30 {
		colors[RunColor(i)] = true
		name := fmt.Sprintf("learning_rate=0.0001,%s,seed=%d\u202e", strings.Repeat("long", 20), i)
		names[name] = true
		chart.Curves = append(chart.Curves, Curve{Name: name, Color: RunColor(i), Steps: []int{1, 2}, Values: []float64{0, float64(i)}})
	}
	require.Len(t, colors, 30)
	text, err := (&Comparison{Title: "seed-0 is not surpassed", Groups: []CurveGroup{{ID: "training", Title: "Training",
		Scattered: true, Charts: []CurveChart{chart}}}}).HTML()
	require.NoError(t, err)
	root := parse(t, string(text))
	require.Equal(t, "seed-0 is not surpassed", root.all("h1", "")[0].read())
	keys := root.all("details", "keys")[0].all("span", "key")
	require.Len(t, keys, 30)
	for _, key := range keys {
		require.Regexp(t, `^learning_rate=0.0001…?.*,seed=\d+⟨U\+202E⟩$`, strings.TrimSpace(key.Text))
		require.Len(t, []rune(strings.TrimSpace(key.Text)), mostName)
	}
	require.Empty(t, root.all("path", "dots"))
}

// A list without runs says how to begin one.
func TestAListOfNoRuns(t *testing.T) {
	text, err := List([]string{"my runs", "others"}, nil)
	require.NoError(t, err)
	root := parse(t, string(text))
	require.Equal(t, "No run yet", root.all("h1", "")[0].read())
	require.Contains(t, root.read(), "New runs below my runs, others appear here by themselves. To start one: grpo run_dir='my runs/first'")
}
