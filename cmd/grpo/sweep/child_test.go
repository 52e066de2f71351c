package sweep

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Why a run ended stands at the end of what it said, however much that was.
func TestLastLine(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer log.Close()
	_, err = log.WriteString("grpo: of the run before\n" + strings.Repeat("  ! a warning\n", 100_000) + "grpo: the disk is full\n\n")
	require.NoError(t, err)
	began := int64(len("grpo: of the run before\n"))
	require.Equal(t, "the disk is full ("+log.Name()+")", lastLine(log, began, errors.New("exit status 1")))
	info, err := log.Stat()
	require.NoError(t, err)
	require.Equal(t, "exit status 1 ("+log.Name()+")", lastLine(log, info.Size(), errors.New("exit status 1")))
}
