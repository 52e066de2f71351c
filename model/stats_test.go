package model

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Statistics can be written as JSON even if the squares of ratios underflow.
func TestStatisticsOfRatiosThatVanish(t *testing.T) {
	var s Stats
	s.add(&[kernels.NumStats]float64{kernels.StatRows: 2, kernels.StatRatio: 3e-170, kernels.StatRatioMin: 1e-170,
		kernels.StatRatioMax: 2e-170})
	_, err := json.Marshal(s)
	require.NoError(t, err)
	require.Zero(t, s.ESS)
	require.Equal(t, 1.5e-170, s.RatioMean)
}
