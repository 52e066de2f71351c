package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/kernels"
)

// An update of the master weights that was not published is detected, and reported.
func TestAnUnpublishedAdapterIsFound(t *testing.T) {
	race.SkipSerial(t)
	backendtest.OnAll(t, func(t *testing.T, b kernels.Backend) {
		for _, name := range goldenCases {
			p := openGolden(t, b, name, "adapter", Options{})
			host, err := p.Adapter()
			require.NoError(t, err)
			hash, err := p.Hash()
			require.NoError(t, err)
			require.Equal(t, host.Hash(), hash)

			for _, e := range host.Entries() {
				for _, at := range []int{0, e.Len() - 1} {
					host.Values[e.Offset+at]++
					params, _, _ := p.Slabs()
					b.Upload(params, host.Values)
					_, err = p.Hash()
					require.ErrorContains(t, err, e.Name)
					p.Publish()
					_, err = p.Hash()
					require.NoError(t, err)
				}
			}
		}
	})
}
