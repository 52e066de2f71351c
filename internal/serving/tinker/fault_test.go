package tinker

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What goes wrong inside is in the log; a client is not told where things lie on this machine.
func TestFaultsAreInTheLog(t *testing.T) {
	var log bytes.Buffer
	s := serve(t, t.TempDir(), func(o *Options) { o.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	m := train(t, s.connect(t), 1)
	folder, err := filepath.Glob(filepath.Join(s.store, "runs", "*"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder[0], "weights"), nil, 0o644)) // where a folder is to be
	_, err = m.Save(t.Context(), "one")
	require.ErrorContains(t, err, "server")
	require.Contains(t, log.String(), `"level":"ERROR","msg":"a request failed","model":"`+m.ID)
	require.Contains(t, log.String(), `"kind":"save_weights"`)

	require.NoError(t, os.RemoveAll(filepath.Join(s.store, "sessions")))
	require.NoError(t, os.WriteFile(filepath.Join(s.store, "sessions"), nil, 0o644))
	log.Reset()
	answer, err := http.Post(s.URL+"/api/v1/create_session", "application/json", bytes.NewReader([]byte("{}")))
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusInternalServerError, answer.StatusCode)
	var said map[string]string
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&said))
	require.Equal(t, "the server failed; its log says why", said["error"])
	require.Contains(t, log.String(), filepath.Join(s.store, "sessions"))
}
