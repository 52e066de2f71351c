package watch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/privilege"
)

// An unreadable folder is reported: waiting for runs there would never end.
func TestAFolderOfSomebodyElse(t *testing.T) {
	locked := filepath.Join(t.TempDir(), "locked")
	require.NoError(t, os.Mkdir(locked, 0o000))
	defer os.Chmod(locked, 0o700)
	require.NoError(t, os.Chmod(filepath.Dir(locked), 0o711))
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(locked)), 0o711))
	privilege.Drop(t)
	_, err := find([]string{locked})
	require.EqualError(t, err, locked+": you may not read it; get permission, or leave it out")
	require.True(t, badinput.Is(err))
}
