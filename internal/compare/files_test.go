package compare

import (
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
