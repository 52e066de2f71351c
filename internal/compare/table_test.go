package compare

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// For people, counts are written as integers, and small numbers with their first digits.
func TestCellsForPeople(t *testing.T) {
	for cell, text := range map[any]string{7680.0: "7680", 1234567.8: "1234568", 2e15: "2e+15", 0.25: "0.250", 0.00012345: "0.000123",
		0.0: "0.000", -4096.0: "-4096", "a": "a", nil: ""} {
		require.Equal(t, text, short(cell))
	}
}
