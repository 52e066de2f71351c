package sets

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
)

// Near duplicates are not reported as equal problems.
func TestOverlapOfNearlyTheSame(t *testing.T) {
	var long strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&long, "word%d ", i)
	}
	var out strings.Builder
	train, held := data.Problem{ID: "a", Statement: long.String() + "one"}, data.Problem{ID: "b", Statement: long.String() + "two"}
	writeOverlap(&out, []data.Problem{train}, []data.Problem{held})
	require.Equal(t, "b is 99 % of a\nof 1 problems 0 are among the 1 of the other set, and 1 nearly\n", out.String())
}
