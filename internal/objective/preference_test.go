package objective

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The loss of a pair is the paper's formula, and its slope is confirmed by differences, at any margin.
func TestPreference(t *testing.T) {
	logSigmoid := func(x float64) float64 { return math.Log(1 / (1 + math.Exp(-x))) }
	for _, p := range []Preference{{Beta: 0.1}, {Beta: 0.5, Smoothing: 0.2}, {Beta: 0.3, Squared: true}} {
		for _, h := range []float64{-40, -3, -0.1, 0, 0.2, 5, 30} {
			want := -(1-p.Smoothing)*logSigmoid(p.Beta*h) - p.Smoothing*logSigmoid(-p.Beta*h)
			if p.Squared {
				want = math.Pow(h-1/(2*p.Beta), 2)
			}
			loss, slope := p.Of(h)
			require.InDelta(t, want, loss, 1e-12, "%+v at %v", p, h)
			const step = 1e-5
			up, _ := p.Of(h + step)
			down, _ := p.Of(h - step)
			require.InDelta(t, (up-down)/(2*step), slope, 1e-6, "%+v at %v", p, h)
		}
	}
}

// For large margins, where exp overflows, results are still finite.
func TestPreferenceFarOut(t *testing.T) {
	p := Preference{Beta: 1}
	loss, slope := p.Of(-2000)
	require.Equal(t, []float64{2000, -1}, []float64{loss, slope})
	loss, slope = p.Of(2000)
	require.Equal(t, []float64{0, 0}, []float64{loss, slope})
}
