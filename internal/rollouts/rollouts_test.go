package rollouts

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStepsAreListed(t *testing.T) {
	for want, steps := range map[string][]int{
		"none": nil, "5": {5}, "5, 10": {5, 10}, "1, 2, 4 to 6, 9": {1, 2, 4, 5, 6, 9},
		"5, 10, 15, 20, …, 50, 55, 60": {5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60},
	} {
		require.Equal(t, want, list(steps))
	}
}
