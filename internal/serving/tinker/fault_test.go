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
	require.EqualError(t, err, "server: the server failed; its log says why")
	require.Contains(t, log.String(), `"level":"ERROR","msg":"a request failed","model":"`+m.ID)
	require.Contains(t, log.String(), `"kind":"save_weights"`)

	log.Reset()
	require.NoError(t, os.RemoveAll(s.store))
	answer, err := http.Post(s.URL+"/api/v1/create_session", "application/json", bytes.NewReader([]byte("{}")))
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusInternalServerError, answer.StatusCode)
	var said map[string]string
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&said))
	require.Equal(t, "the server failed; its log says why", said["error"])
	require.Contains(t, log.String(), "statfs "+s.store)
}

// A request that the machine failed is not done again, and those behind it are done as if it had not been.
func TestAModelGoesOnAfterAFault(t *testing.T) {
	s := serve(t, t.TempDir())
	n := s.connect(t)
	m, other := train(t, n, 1), train(t, n, 1)
	path, err := m.Save(t.Context(), "one")
	require.NoError(t, err)
	saved, err := filepath.Glob(filepath.Join(s.store, "runs", "*", "weights"))
	require.NoError(t, err)
	require.Len(t, saved, 1)
	state := filepath.Join(filepath.Dir(saved[0]), "state")
	require.NoError(t, os.WriteFile(state, nil, 0o644)) // what is loaded cannot be kept, as on a disk that is full
	require.ErrorContains(t, m.Load(t.Context(), path, true), "server: ")
	require.NoError(t, os.Remove(state))
	q := crossEntropy(lesson(text1, 3, 1))
	require.Equal(t, learned(t, other, q).LogProbs, learned(t, m, q).LogProbs)
}
