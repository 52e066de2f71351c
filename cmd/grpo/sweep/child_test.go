package sweep

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/learning"
	"github.com/seed-7879b91d/grpo/internal/sweep"
)

// The reason why a run ended is the last line of its output, however long that is.
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

// The last warning of a run that was killed is not taken for the reason.
func TestAKilledRunDidNotEndForWhatItSaid(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer log.Close()
	for _, c := range []struct{ script, want string }{
		{"echo '  ! a warning' >&2; kill -9 $$", "signal: killed"},
		{"echo 'grpo: the disk is full' >&2; exit 1", "the disk is full"},
	} {
		cmd := exec.Command("sh", "-c", c.script)
		cmd.Stderr = log
		says := reason(log, 0, cmd.Run())
		require.Contains(t, says, c.want)
		require.NotContains(t, says, "a warning")
	}
}

// A run whose policy became non-finite is distinguished from one that a machine failed by its last line.
func TestARunThatLostItsPolicy(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer log.Close()
	for last, want := range map[string]bool{"step 3: " + learning.ErrDiverged.Error() + "; lower it": true, "the disk is full": false} {
		cmd := exec.Command("sh", "-c", "echo 'grpo: "+last+"' >&2; exit 2")
		cmd.Stderr = log
		err := why(log, 0, cmd.Run())
		require.EqualError(t, err, last+" ("+log.Name()+")")
		require.Equal(t, want, errors.Is(err, sweep.ErrDiverged))
	}
}
