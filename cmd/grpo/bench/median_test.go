package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
)

// The median of an even number is the mean of the two in the middle. One more run than counted warms up.
func TestRunsHaveAMedian(t *testing.T) {
	require.Equal(t, 20*time.Second, median([]time.Duration{80 * time.Second, 0, 40 * time.Second, 0}))
	require.Equal(t, 3.0, median([]float64{7, 3, 1}))
	runs := 0
	_, err := timeRuns(t.Context(), 4, func() error { runs++; return nil })
	require.NoError(t, err)
	require.Equal(t, 5, runs)
}

// Every timed step of decoding has the requested context, however many there are, and the memory excludes that of measuring the limits.
func TestDecodingHasItsContext(t *testing.T) {
	m := Sampling{Model: Model{Shape: "tiny/1", Runs: 1, Options: model.Options{Precision: model.F32},
		Open: func(string, int) (kernels.Backend, error) { return backendtest.CPU(t, cpu.Options{}), nil }}, Batch: 1, Context: 4080}
	s, err := Decode(t.Context(), &m)
	require.NoError(t, err)
	require.Positive(t, s.TokensPerSec)
	forgets := resetPeak()
	if forgets {
		require.Less(t, s.PeakMemory, int64(512<<20))
	}
	m.Runs = 1 << 30 // else room for their sums and times would be allocated
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Decode(ended, &m)
	require.ErrorIs(t, err, context.Canceled)
	if forgets {
		require.Less(t, peakMemory(), int64(512<<20))
	}
	m.Context++
	_, err = Decode(t.Context(), &m)
	require.ErrorContains(t, err, "--context: found 4081, expected at most 4080, as tiny/1 has 4096 positions")
	_, err = Prefill(t.Context(), &Sampling{Model: m.Model, Batch: 1, Context: 4097})
	require.ErrorContains(t, err, "expected at most 4096")
}
