package disk

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A file system that syncs no folders, as that of /proc, can do without.
func TestFoldersThatCannotBeSynced(t *testing.T) {
	require.NoError(t, SyncFolder("/proc/self"))
	require.Error(t, SyncFolder("/proc/no such folder"))
}
