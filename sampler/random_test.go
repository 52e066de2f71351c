package sampler

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The numbers are pinned: another generator would draw other completions from the seeds of old runs.
func TestUniformNumbersArePinned(t *testing.T) {
	require.Equal(t, 0.19537770022614398, uniform(Key{}, 0, 0))
	require.Equal(t, 0.15361916420844246, uniform(Key{Seed: 1 << 63, Step: 2, Problem: 3}, 4, 5))
	require.Equal(t, 0.7670715786198007, uniform(Key{Seed: 7, Step: -1, Problem: 1}, 1, 1))
}

func TestUniformNumbersAreUniformAndTheirOwn(t *testing.T) {
	seen := map[float64]bool{}
	sum := 0.0
	for step := range 10 {
		for problem := range 10 {
			for number := range 10 {
				for position := range 20 {
					u := uniform(Key{Seed: 1, Step: step, Problem: problem}, number, position)
					require.True(t, u >= 0 && u < 1)
					require.False(t, seen[u])
					seen[u] = true
					sum += u
				}
			}
		}
	}
	require.InDelta(t, 0.5, sum/20_000, 0.01)
	require.NotEqual(t, uniform(Key{Seed: 1}, 0, 0), uniform(Key{Seed: 2}, 0, 0))
}
