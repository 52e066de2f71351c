package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// No line and no sentence connects results on different problems or rows.
func TestOthersAreApart(t *testing.T) {
	curves := func(evals ...evaluation) string {
		r := run{evals: evals}
		s := r.heldOut().drawn()
		require.Len(t, s.Charts, 1)
		var paths []string
		for _, shape := range s.Charts[0].Shapes {
			paths = append(paths, shape.Path)
		}
		return s.Lead + strings.Join(paths, " ")
	}
	others := eval(9, 0.6, 0.5, 0.7)
	others.Problems = 50
	alone, apart := curves(eval(0, 0.3, 0.2, 0.4), eval(9, 0.6, 0.5, 0.7)), curves(eval(0, 0.3, 0.2, 0.4), others)
	require.Contains(t, apart, "a line breaks where other problems were held out")
	require.Contains(t, alone, "M20 700 980 400")
	require.NotContains(t, apart, "M20 700 980 400")

	found := func(step, rows int, loss float64) heldRows {
		h := unknownRows(step)
		h.Rows, h.Loss = rows, loss
		return h
	}
	r := run{held: []heldRows{found(0, 9, 2), found(5, 7, 3), found(9, 7, 1)}, steps: []step{{Step: 9}}}
	require.Equal(t, verdict{"good", "The held-out loss fell from 3 to 1", "Earlier evaluations had other held-out rows, and do not compare."},
		r.rowsSay())
	require.Equal(t, "a line breaks where other rows were held out", r.heldRows().Lead)
	r.held = r.held[:2]
	require.Equal(t, "The held-out loss is 3 after step 5", r.rowsSay().Sentence)
}
