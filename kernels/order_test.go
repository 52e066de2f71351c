package kernels_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
)

func TestOrdersHaveNames(t *testing.T) {
	for _, o := range []kernels.Order{kernels.Serial, kernels.Tiles} {
		found, err := kernels.ParseOrder(o.String())
		require.NoError(t, err)
		require.Equal(t, o, found)
	}
	_, err := kernels.ParseOrder("pairs")
	require.EqualError(t, err, `order "pairs" is not known; expected one of ["serial" "tiles"]`)
}
