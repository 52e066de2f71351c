package compare

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
)

// warmedUp makes a run a warm-up over rows of the number that is in its manifest, in steps of 16.
func warmedUp(epochs int) func(c *configs.Config) {
	return func(c *configs.Config) { c.Method, c.MaxSteps, c.Epochs, c.RowsPerStep = configs.SFT, -1, epochs, 16 }
}

// A warm-up that ends with its epochs is as finished as a run that ends with max_steps.
func TestAWarmUpThatHasAllItsEpochsIsFinished(t *testing.T) {
	m := made{heldOut: "h", model: "m", steps: 6, change: warmedUp(3)}
	require.NotContains(t, strings.Join(written(t, m, m).Notes, "\n"), "unfinished")
}
