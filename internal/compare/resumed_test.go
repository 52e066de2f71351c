package compare

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/stats"
)

// Who types the command of a finished run again has not resumed it: nothing was left to train.
func TestAFinishedRunIsNotResumed(t *testing.T) {
	good := made{heldOut: "h", model: "m", steps: 4, evaluations: []stats.Judged{judged(4, 1, 0)}}
	typed := good
	typed.again = 2
	c := written(t, good, typed)
	require.Empty(t, c.Notes)
	text, err := c.Table(true).Write("csv")
	require.NoError(t, err)
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	require.NoError(t, err)
	resumed := slices.Index(rows[0], "resumed")
	require.Equal(t, []string{"0", "0"}, []string{rows[1][resumed], rows[2][resumed]})
}
