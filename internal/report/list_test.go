package report

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// One step is one step, also where it is the only one of a run.
func TestStepsAreCounted(t *testing.T) {
	for last, want := range map[int]string{1: "1 of 1 step", 8: "1 of 8 steps"} {
		r := &run{steps: []step{{Step: 1}}}
		r.settings.MaxSteps = last
		require.Equal(t, want, Listed{run: r}.Progress())
	}
}
