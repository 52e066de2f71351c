package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// If a disk fills up between two checks, that is noticed after a few requests, however fast they come.
func TestAStoreThatFillsUpFast(t *testing.T) {
	s, r := newRun(t)
	const most = 1 << 20
	require.NoError(t, s.CheckSpace(most))
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "much"), make([]byte, 2*most), 0o644))
	asked := 1
	for ; s.CheckSpace(most) == nil; asked++ {
		require.Less(t, asked, few)
	}
	require.ErrorContains(t, s.CheckSpace(most), "the store has 2 MB of the 1 that it may take")
	require.ErrorContains(t, s.CheckSpace(s.room.used), "that it may take", "a full store has no room")
	require.EqualValues(t, 50, reserveOf(1000), "a twentieth of a small disk is left free")
	require.NoError(t, os.Remove(filepath.Join(r.dir, "much")))
	for asked = 1; s.CheckSpace(most) != nil; asked++ {
		require.Less(t, asked, few)
	}
}
