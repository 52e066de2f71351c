package disk

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A file system that cannot sync folders, such as /proc, is accepted.
func TestFoldersThatCannotBeSynced(t *testing.T) {
	require.NoError(t, SyncFolder("/proc/self"))
	require.Error(t, SyncFolder("/proc/no such folder"))
}
