package compare

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// Starting a finished run again does not count as a resume: nothing was left to train.
func TestAFinishedRunIsNotResumed(t *testing.T) {
	good := writtenRun{heldOut: "h", model: "m", steps: 4, evaluations: []stats.Judged{judged(4, 1, 0)}}
	typed := good
	typed.again = 2
	c := written(t, good, typed)
	require.Empty(t, c.Notes)
	text, err := c.Table(true).Write("csv")
	require.NoError(t, err)
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	require.NoError(t, err)
	resumed := slices.Index(rows[0], "resumed")
	require.Equal(t, []string{"0", "0"}, []string{rows[1][resumed], rows[2][resumed]})
}

// The held-out problems are those of the compared step: a run may have continued with others.
func TestHeldOutProblemsAreThoseOfTheStep(t *testing.T) {
	every := func(c *configs.Config) { c.EvalEvery, c.TestData = 2, "held.jsonl" }
	of := writtenRun{heldOut: "one", model: "m", steps: 4, change: every, evaluations: []stats.Judged{judged(2, 1, 0), judged(4, 1, 0)}}
	changed, same := of.write(t, filepath.Join(t.TempDir(), "changed")), of.write(t, filepath.Join(t.TempDir(), "same"))
	past, err := provenance.Read(changed)
	require.NoError(t, err)
	past.Manifest.Starts = append(past.Manifest.Starts, provenance.Start{After: 2, Parts: provenance.Parts{"test_data": {SHA256: "two"}}})
	text, err := json.Marshal(past.Manifest)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(changed, provenance.ManifestFile), text, 0o644))
	runs, err := Open([]string{changed, same})
	require.NoError(t, err)
	for step, refused := range map[int]string{2: "", 4: "other held-out problems than changed", -1: "other held-out problems than changed"} {
		c, err := New(runs, 0, step)
		require.NoError(t, err)
		require.Equal(t, refused, c.Pairs[0].Refused, "step %d", step)
	}
}
