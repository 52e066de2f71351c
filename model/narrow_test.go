package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

// noBF16 is a backend without buffers of bf16.
type noBF16 struct{ kernels.Backend }

// With rows stored in bf16 for the gradients, the forward pass is unchanged; gradients change a little, whatever is recomputed.
func TestWhatWaitsInBF16(t *testing.T) {
	race.SkipSerial(t)
	backendtest.On(t, kerneltest.NewReference(), testNarrow)
}

func testNarrow(t *testing.T, b kernels.Backend) {
	name := plainCases[0]
	var train goldenTrain
	readJSON(t, &train, name, "train.json")
	run := func(b kernels.Backend, r Recompute) (gradients []float32, stats Stats, bytes int) {
		p := openGolden(t, b, name, "train_init", Options{Precision: BF16, Cache: BF16, Recompute: r, MaxRows: 64})
		stats, err := p.Accumulate(t.Context(), train.Datums[:1], importanceSampling)
		require.NoError(t, err)
		g, err := p.Gradients()
		require.NoError(t, err)
		return g.Values, stats, p.trainer.Bytes()
	}
	wide, wideStats, wideBytes := run(noBF16{b}, RecomputeCheap)
	narrow, stats, bytes := run(b, RecomputeCheap)
	require.Equal(t, wideStats, stats, "narrow buffers do not change the forward pass")
	require.NotEqual(t, wide, narrow)
	d := distance(narrow, wide)
	t.Logf("rounding what waits moves gradients by %.2g of their norm; %d bytes of activations become %d", d, wideBytes, bytes)
	require.Less(t, d, 1e-2)
	require.Less(t, 4*bytes, 3*wideBytes)

	again, stats, blocks := run(b, RecomputeBlocks)
	require.Equal(t, wideStats, stats)
	require.Equal(t, narrow, again, "gradients do not depend on recomputation")
	require.Less(t, blocks, bytes)

	none, stats, _ := run(b, RecomputeNone)
	require.Equal(t, wideStats, stats)
	require.Equal(t, narrow, none, "gradients do not depend on recomputation")
}
