package compare

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
)

// Groups of the same settings whose files differ are told apart by these, also where others differ in settings.
func TestSummariesOfOtherFiles(t *testing.T) {
	rate := func(c *configs.Config) { c.LearningRate = 1e-2 }
	heldOut := made{heldOut: "0123456789", model: "m", steps: 4, change: rate}
	for _, c := range []struct {
		runs  []made
		names []string
	}{
		{[]made{{heldOut: "h", model: "m", steps: 4}, {heldOut: "h", model: "other", steps: 4}, heldOut},
			[]string{"learning_rate=4e-5 model@m", "learning_rate=4e-5 model@other", "learning_rate=0.01"}},
		{[]made{{heldOut: "h", model: "m", steps: 4, change: rate}, {model: "n", steps: 4, change: rate}, heldOut},
			[]string{"model@m test_data@h", "model@n test_data@none", "model@m test_data@01234567"}},
	} {
		var names []string
		for _, g := range Summarize(written(t, c.runs...).Runs).Groups {
			names = append(names, g.Name)
		}
		require.Equal(t, c.names, names)
	}
}

// Runs whose grader came with a Go program are no seeds of those that were judged by the settings; that nobody knows whether it was the
// same grader is said.
func TestSummariesOfOwnGraders(t *testing.T) {
	own := []string{"grader"}
	seed := func(c *configs.Config) { c.Seed = 7 }
	s := Summarize(written(t, made{heldOut: "h", steps: 4, own: own}, made{heldOut: "h", steps: 4},
		made{heldOut: "h", steps: 4, own: own, change: seed}, made{heldOut: "h", steps: 4, own: []string{"grader", "loss"}}).Runs)
	var names []string
	for _, g := range s.Groups {
		names = append(names, g.Name)
	}
	require.Equal(t, []string{"grader@own loss@none", "grader@none loss@none", "grader@own loss@own"}, names)
	require.Len(t, s.Groups[0].Runs, 2)
	require.Contains(t, s.Notes, "grader@own loss@none: the grader of these runs came with a Go program, and whether it was the same in all "+
		"of them is not on record; leave out those of another")
}

// Runs that differ in a setting that changes no result, as its help has it, are of one group.
func TestWhatChangesNoResultMakesNoGroup(t *testing.T) {
	for _, f := range configs.Describe() {
		if strings.Contains(f.Help, "changes no result") || strings.Contains(f.Help, "changes no number") {
			require.Contains(t, machine, f.Key)
		}
	}
}
