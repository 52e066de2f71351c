package serve

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Who asks for a session of a server that has none is told how to start one that has.
func TestNoSessions(t *testing.T) {
	url, _, stop := serve(t)
	defer stop()
	_, err := post(t, url+"/v1/sessions", `{}`)
	require.ErrorContains(t, err, "404")
	require.ErrorContains(t, err, "start the server with --sessions tiny --store DIR")
	_, err = post(t, url+"/v1/sessions/x/train_step", `{"step":1}`)
	require.ErrorContains(t, err, "there are no training sessions here")
	_, err = post(t, url+"/v1/nothing", `{}`)
	require.ErrorContains(t, err, "POST /v1/load_lora_adapter")
	require.NotContains(t, err.Error(), "sessions")
}

// What is of a store wants one, and a run's directory is none.
func TestMistakesAboutAStore(t *testing.T) {
	run := t.TempDir()
	for _, name := range []string{"metrics.jsonl", "manifest.json"} {
		require.NoError(t, os.WriteFile(filepath.Join(run, name), nil, 0o600))
	}
	require.ErrorContains(t, (&flags{keepSessions: time.Hour}).checkSessions(), "type --store DIR, too")
	require.ErrorContains(t, (&flags{store: run}).checkSessions(), "is a run, and its files stay as they are")
	require.ErrorContains(t, (&flags{store: filepath.Join(run, "store")}).checkSessions(), "is a run, and its files stay as they are")
	require.NoError(t, (&flags{store: filepath.Join(t.TempDir(), "store")}).checkSessions())
}
