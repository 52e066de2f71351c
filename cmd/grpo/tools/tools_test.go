package tools

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A form that is not there is told of by its flag.
func TestForm(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.py")
	require.NoError(t, os.WriteFile(file, []byte("print(1)\n"), 0o600))
	cmd := Command()
	cmd.SetArgs([]string{"trace", file, "--form", "tbl"})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	require.EqualError(t, cmd.ExecuteContext(t.Context()), `--form: found "tbl", expected lines, table or story`)
}
