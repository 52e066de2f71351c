package serve

import (
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/gate"
)

// hangUp sends this process what a terminal that is closed sends, or somebody who has changed the file of keys.
func hangUp(t *testing.T) {
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
}

func TestHangups(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	ada, line, err := gate.NewKey("ada")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	f := &flags{keys: file}
	f.gate.Keys, err = gate.ReadKeys(file)
	require.NoError(t, err)
	lines := make(chan string, 1)
	ctx, stop := f.hangups(t.Context(), slog.New(slog.NewTextHandler(sent(lines), nil)))
	defer stop()

	bob, line, err := gate.NewKey("bob")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	require.False(t, f.gate.Keys.Knows(bob))
	hangUp(t)
	require.Contains(t, <-lines, "the keys are read again")
	require.True(t, f.gate.Keys.Knows(bob))
	require.False(t, f.gate.Keys.Knows(ada))

	require.NoError(t, os.WriteFile(file, []byte("nonsense"), 0o600))
	hangUp(t)
	require.Contains(t, <-lines, "the keys stay as they are")
	require.True(t, f.gate.Keys.Knows(bob))
	require.NoError(t, ctx.Err())
}

// Without keys there is nothing to read again: the server stops as it does when it is asked to.
func TestAHangupWithoutKeys(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("it is ignored here, as nohup has it")
	}
	ctx, stop := (&flags{}).hangups(t.Context(), slog.New(slog.DiscardHandler))
	defer stop()
	hangUp(t)
	<-ctx.Done()
}
