package compare

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A page names its columns, and explains intervals where there are some.
func TestThePageExplainsWhatItHas(t *testing.T) {
	c := several(t)
	text, err := c.Page().HTML()
	require.NoError(t, err)
	require.NotContains(t, string(text), `<th scope="col"></th>`)
	require.Contains(t, c.Page().Detail, "Each run is compared with a alone")
	for i := range c.Pairs {
		c.Pairs[i].Greedy = nil
	}
	require.Empty(t, c.Page().Detail)
	require.Equal(t, "4 runs, not compared problem by problem", c.Page().Title, "they may be of the same problems for all that is known")
}
