package compare

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
)

// warmedUp makes a run a warm-up over the rows counted in its manifest, in steps of 16.
func warmedUp(epochs int) func(c *configs.Config) {
	return func(c *configs.Config) { c.Method, c.MaxSteps, c.Epochs, c.RowsPerStep = configs.SFT, -1, epochs, 16 }
}

// A warm-up that ends with its epochs is as finished as a run that ends with max_steps.
func TestAWarmUpThatHasAllItsEpochsIsFinished(t *testing.T) {
	m := writtenRun{heldOut: "h", model: "m", steps: 6, change: warmedUp(3)}
	require.NotContains(t, strings.Join(written(t, m, m).Notes, "\n"), "unfinished")
}

// lessons are metrics of a warm-up: evaluations on held-out rows, and steps.
func lessons(loss float64) []any {
	return []any{
		map[string]any{"kind": "held_out", "step": 0, "rows": 9, "loss": 2.0, "accuracy": 0.0, "reward_margin": 0.0},
		map[string]any{"step": 1, "updated": true, "loss": 1.75, "entropy": 0.5},
		map[string]any{"kind": "held_out", "step": 1, "rows": 9, "loss": loss, "accuracy": 0.5, "reward_margin": 0.125},
	}
}

// warmUps are two warm-ups with different seeds, with their results.
func warmUps(t *testing.T) (runs []*Run) {
	t.Helper()
	folder := t.TempDir()
	var dirs []string
	for i, loss := range []float64{1.25, 1.75} {
		m := writtenRun{model: "m", change: func(c *configs.Config) {
			c.Method, c.MaxSteps, c.Seed, c.HeldOut = configs.SFT, 1, uint64(i), 0.1
		}}
		dir := m.write(t, filepath.Join(folder, string(rune('a'+i))))
		var text []byte
		for _, line := range lessons(loss) {
			one, err := json.Marshal(line)
			require.NoError(t, err)
			text = append(append(text, one...), '\n')
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "metrics.jsonl"), text, 0o644))
		dirs = append(dirs, dir)
	}
	runs, err := Open(dirs)
	require.NoError(t, err)
	return runs
}

// Warm-ups are compared by their held-out rows: in the terminal, on the page and in tables, whatever evaluation is last.
func TestWarmUpsAreComparedByTheirRows(t *testing.T) {
	runs := warmUps(t)
	c, err := New(runs, 0, 1)
	require.NoError(t, err)
	text := strings.Join(strings.Fields(c.Text()), " ")
	require.Contains(t, text, "held-out rows step rows loss before accuracy margin of steps a 1 9 1.25 2 0.500 0.125 1.75 b 1 9 1.75 2")
	require.Contains(t, text, "b held out other rows than a")
	require.NotContains(t, text, "neither was evaluated")
	table := c.Table(false).objects()[1]
	require.Equal(t, []any{1.75, 1, 9, 1.75, 0.5, 0.125}, []any{table["train_loss"], table["held_out_at"], table["held_out_rows"],
		table["held_out_loss"], table["held_out_accuracy"], table["held_out_margin"]})
	require.Equal(t, "Held-out rows", c.Page().Tables[0].Title)
	page, err := c.Page().HTML()
	require.NoError(t, err)
	require.Contains(t, string(page), "Loss of held-out rows")
	_, err = New(runs, 0, 2)
	require.ErrorContains(t, err, "it has some after 0, 1")

	s := Summarize(runs)
	require.Contains(t, strings.Join(s.Notes, "\n"), "each seed holds out other rows")
	means := map[string]float64{}
	for _, f := range s.Groups[0].Figures {
		means[f.Name+" "+f.At] = f.Mean()
	}
	require.Equal(t, []float64{2, 1.5, 0.5, 1.75},
		[]float64{means["held_out_loss 0"], means["held_out_loss end"], means["held_out_accuracy end"], means["train_loss end"]})
}

// Tables of other runs have no columns for rows, so that they do not change for programs that read them.
func TestOtherRunsHaveNoColumnsForRows(t *testing.T) {
	m := writtenRun{heldOut: "h", model: "m", steps: 6}
	require.NotContains(t, written(t, m, m).Table(true).Header, "held_out_loss")
}

// Control characters in names of problems and runs do not reach the terminal.
func TestNamesInATerminal(t *testing.T) {
	m := writtenRun{heldOut: "h", model: "m", steps: 1}
	runs, err := Open([]string{m.write(t, filepath.Join(t.TempDir(), "a\x1b[31m")), m.write(t, filepath.Join(t.TempDir(), "b"))})
	require.NoError(t, err)
	c, err := New(runs, 0, -1)
	require.NoError(t, err)
	for _, text := range []string{c.Text(), Summarize(runs).Text()} {
		require.Contains(t, text, "a␛[31m")
		require.NotContains(t, text, "\x1b")
	}
	require.Equal(t, "    solves 1 (a␛[31m)\n", listed("solves ", []string{"a\x1b[31m"}))
}
