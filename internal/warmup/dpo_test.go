package warmup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/objective"
)

// The accuracy is 1 if all pairs are preferred, however many, and 0 if none is.
func TestTheAccuracyOfAllIsOne(t *testing.T) {
	p := &preferences{loss: objective.Preference{Beta: 0.1}}
	for n := 1; n <= 100; n++ {
		rows, pairs := make([]int, n), make([]pair, n)
		p.reference = make([][2]float64, 1)
		for preferred := range n + 1 {
			for i := range pairs {
				pairs[i].h = -1
				if i < preferred {
					pairs[i].h = 1
				}
			}
			require.Equal(t, float64(preferred)/float64(n), p.measure(rows, pairs).Accuracy)
		}
	}
}
