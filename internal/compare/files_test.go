package compare

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
)

// Groups with equal settings but other files are distinguished by the files, also beside groups with other settings.
func TestSummariesOfOtherFiles(t *testing.T) {
	rate := func(c *configs.Config) { c.LearningRate = 1e-2 }
	heldOut := writtenRun{heldOut: "0123456789", model: "m", steps: 4, change: rate}
	for _, c := range []struct {
		runs  []writtenRun
		names []string
	}{
		{[]writtenRun{{heldOut: "h", model: "m", steps: 4}, {heldOut: "h", model: "other", steps: 4}, heldOut},
			[]string{"learning_rate=4e-5 model@m", "learning_rate=4e-5 model@other", "learning_rate=0.01"}},
		{[]writtenRun{{heldOut: "h", model: "m", steps: 4, change: rate}, {model: "n", steps: 4, change: rate}, heldOut},
			[]string{"model@m test_data@h", "model@n test_data@none", "model@m test_data@01234567"}},
	} {
		var names []string
		for _, g := range Summarize(written(t, c.runs...).Runs).Groups {
			names = append(names, g.Name)
		}
		require.Equal(t, c.names, names)
	}
}

// Runs with a program's own grader are not grouped with runs without; whether two such graders were the same is unknown, and reported so.
func TestSummariesOfOwnGraders(t *testing.T) {
	own := []string{"grader"}
	seed := func(c *configs.Config) { c.Seed = 7 }
	s := Summarize(written(t, writtenRun{heldOut: "h", steps: 4, own: own}, writtenRun{heldOut: "h", steps: 4},
		writtenRun{heldOut: "h", steps: 4, own: own, change: seed}, writtenRun{heldOut: "h", steps: 4, own: []string{"grader", "loss"}}).Runs)
	var names []string
	for _, g := range s.Groups {
		names = append(names, g.Name)
	}
	require.Equal(t, []string{"grader@own loss@none", "grader@none loss@none", "grader@own loss@own"}, names)
	require.Len(t, s.Groups[0].Runs, 2)
	require.Contains(t, s.Notes, "grader@own loss@none: the grader of these runs came with a Go program, and whether it was the same in all "+
		"of them is not on record; leave out those of another")
}

// Runs that differ in a setting that does not change results, as its help says, are in one group.
func TestWhatChangesNoResultMakesNoGroup(t *testing.T) {
	for _, f := range configs.Describe() {
		if strings.Contains(f.Help, "changes no result") || strings.Contains(f.Help, "changes no number") {
			require.Contains(t, unrelatedKeys, f.Key)
		}
	}
}
