package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Times that are the sum of a linear and a quadratic part are decomposed; other times are recognised.
func TestTimesAreTakenApart(t *testing.T) {
	var r LongResult
	for _, n := range []int{4096, 8192, 16384, 24576} {
		x := float64(n)
		r.Rows = append(r.Rows, LongRow{Tokens: n, Seconds: 2e-3*x + 3e-8*x*x})
	}
	r.fit()
	require.InEpsilon(t, 2e-3, r.Linear, 1e-9)
	require.InEpsilon(t, 3e-8, r.Square, 1e-9)
	require.Less(t, r.Worst, 1e-9)
	require.Greater(t, r.Exponent, 1.05)
	require.Less(t, r.Exponent, 1.25)

	r.Rows[3].Seconds *= 2
	r.fit()
	require.Greater(t, r.Worst, 0.1)
}
