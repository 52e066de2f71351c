package serve

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/store"
)

// If a server has no sessions, the error says how to start one that has.
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

// Settings of a store need a store, and a run's directory is none.
func TestMistakesAboutAStore(t *testing.T) {
	run := t.TempDir()
	for _, name := range []string{"metrics.jsonl", "manifest.json"} {
		require.NoError(t, os.WriteFile(filepath.Join(run, name), nil, 0o600))
	}
	require.ErrorContains(t, (&flags{keepSessions: time.Hour}).checkSessions(), "type --store DIR, too")
	require.ErrorContains(t, (&flags{store: run}).checkSessions(), "is a run, and its files stay as they are")
	require.ErrorContains(t, (&flags{store: filepath.Join(run, "store")}).checkSessions(), "is a run, and its files stay as they are")
	require.NoError(t, (&flags{store: filepath.Join(t.TempDir(), "store")}).checkSessions())
	dir := filepath.Join(t.TempDir(), "a store")
	require.ErrorContains(t, (&flags{store: "sessions_test.go"}).checkSessions(), "found a file, expected a directory")
	s, err := store.Open(dir)
	require.NoError(t, err)
	require.ErrorContains(t, (&flags{store: dir}).checkSessions(), "another server uses it; stop that one")
	require.NoError(t, s.Close())
	before, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NoError(t, (&flags{store: dir}).checkSessions())
	after, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NoError(t, os.Remove(filepath.Join(dir, "runs")))
	require.NoError(t, (&flags{store: dir}).checkSessions(), "a removed folder is made again")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "runs"), nil, 0o600))
	err = (&flags{store: dir}).checkSessions()
	require.ErrorContains(t, err, "nothing can be written in "+filepath.Join(dir, "runs")+" (not a directory); make it writable")
	require.ErrorContains(t, err, "such as --store 'a store-2'")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other"), nil, 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, "runs")))
	require.ErrorContains(t, (&flags{store: dir}).checkSessions(), "is no store: it has \"other\" in it")
}
