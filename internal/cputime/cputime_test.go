package cputime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Work counts, and waiting does not.
func TestUsed(t *testing.T) {
	before := Used()
	time.Sleep(300 * time.Millisecond)
	require.Less(t, Used()-before, 100*time.Millisecond)
	before = Used()
	for x := uint64(1); Used()-before < 50*time.Millisecond; x = x*x + 1 { // ends only if it counts
	}
}
