package tinker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
)

// Internal errors are logged; clients do not see paths of this machine.
func TestFaultsAreInTheLog(t *testing.T) {
	var log bytes.Buffer
	s := serve(t, t.TempDir(), func(o *Options) { o.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	m := train(t, s.connect(t), 1)
	folder, err := filepath.Glob(filepath.Join(s.store, "runs", "*"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder[0], "weights"), nil, 0o644)) // where a folder is needed
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

// A request that failed because of the machine is not repeated, and those after it run as if it had not been sent.
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
	require.NoError(t, os.WriteFile(state, nil, 0o644)) // so that the loaded state cannot be saved, as on a full disk
	require.ErrorContains(t, m.Load(t.Context(), path, true), "server: ")
	require.NoError(t, os.Remove(state))
	q := crossEntropy(weightedDatum(tokens1, 3, 1))
	require.Equal(t, awaitGradient(t, other, q).LogProbs, awaitGradient(t, m, q).LogProbs)
}

// A load saves its state before its result: if the server is killed in between, the result is there after the restart.
func TestALoadThatWasCutOffIsAnswered(t *testing.T) {
	first := serve(t, t.TempDir())
	n := first.connect(t)
	m := train(t, n, 1)
	q := crossEntropy(weightedDatum(tokens1, 3, 1))
	awaitGradient(t, m, q)
	stepped(t, m, 1e-2)
	path, err := m.Save(t.Context(), "one")
	require.NoError(t, err)
	awaitGradient(t, m, q)
	stepped(t, m, 1e-2)
	require.NoError(t, m.Load(t.Context(), path, true))

	folder := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.CopyFS(folder, os.DirFS(first.store)))
	journals, err := filepath.Glob(filepath.Join(folder, "runs", "*", "journal"))
	require.NoError(t, err)
	require.Len(t, journals, 1)
	text, err := os.ReadFile(journals[0])
	require.NoError(t, err)
	last := 0 // a record: its length, two checksums, its text
	for next := 0; next < len(text); next += 12 + int(binary.LittleEndian.Uint32(text[next:])) {
		last = next
	}
	require.Contains(t, string(text[last:]), `"k":"done"`)
	require.NoError(t, os.Truncate(journals[0], int64(last)))

	second := serve(t, folder)
	answer, err := second.Wait(t.Context(), fmt.Sprintf("%s#%d", m.ID, m.Seq))
	require.NoError(t, err)
	require.JSONEq(t, "{}", string(answer))
	again := *m
	again.Session = &client.Session{Client: second.Client, ID: n.ID}
	require.Equal(t, awaitGradient(t, m, q), awaitGradient(t, &again, q))
	require.Equal(t, stepped(t, m, 1e-2), stepped(t, &again, 1e-2))
	count := func(s *site) (waiting, held int) { // waiting: requests without a result; held: bytes that no snapshot has
		r := s.server.runs[m.ID]
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.waiting, r.held
	}
	_, held := count(first)
	waiting, heldAfter := count(second)
	require.Zero(t, waiting)
	require.LessOrEqual(t, heldAfter, held)
}

// A request that failed because the backend was full is not repeated later, when there is room, and not by the next server.
func TestWhatFailedForWantOfRoomStaysUndone(t *testing.T) {
	folder := t.TempDir()
	s := serve(t, folder, func(o *Options) { o.IdleTimeout, o.MaxLayouts = time.Millisecond, 1 })
	n := s.connect(t)
	m, other := train(t, n, 1), train(t, n, 1)
	q := crossEntropy(weightedDatum(tokens1, 3, 1))
	var key benchKey
	require.Eventually(t, func() bool { // both are idle
		s.server.benchMu.Lock()
		defer s.server.benchMu.Unlock()
		for k, b := range s.server.benches {
			key = k
			return b.users == 0
		}
		return false
	}, time.Minute, time.Millisecond)
	wide := key
	wide.rank++
	_, err := s.server.findBench(wide)
	require.NoError(t, err)
	f, err := m.ForwardBackward(t.Context(), q)
	require.NoError(t, err)
	_, err = f.Wait(t.Context())
	require.ErrorContains(t, err, "no more fit; unload one")
	s.server.release(wide)
	want := awaitGradient(t, other, q)
	stepped(t, other, 1e-2)
	require.Equal(t, want, awaitGradient(t, m, q))
	stepped(t, m, 1e-2)
	want = awaitGradient(t, other, q)
	require.Equal(t, want, awaitGradient(t, m, q)) // with both gradients it would differ

	copied := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.CopyFS(copied, os.DirFS(folder)))
	next := serve(t, copied)
	again := *m
	again.Session = &client.Session{Client: next.Client, ID: n.ID}
	stepped(t, other, 1e-2)
	stepped(t, &again, 1e-2)
	require.Equal(t, awaitGradient(t, other, q), awaitGradient(t, &again, q))
}

// A request that failed because of the machine is not repeated, even when its result is no longer kept.
func TestWhatFailedLongAgoStaysUndone(t *testing.T) {
	s := serve(t, t.TempDir(), func(o *Options) { o.MaxModels, o.MaxResults = 1, 1 }) // each leaves memory when the other is used
	n := s.connect(t)
	m, other := train(t, n, 1), train(t, n, 1)
	q := crossEntropy(weightedDatum(tokens1, 3, 1))
	state := filepath.Join(s.store, "runs", strings.ReplaceAll(m.ID, ":", "_"), "state")
	require.NoError(t, os.Rename(state, state+"s"))
	require.NoError(t, os.WriteFile(state, nil, 0o644))
	f, err := m.ForwardBackward(t.Context(), q)
	require.NoError(t, err)
	_, err = f.Wait(t.Context())
	require.ErrorContains(t, err, "server: ")
	require.NoError(t, os.Remove(state))
	require.NoError(t, os.Rename(state+"s", state))
	for range 3 {
		require.Equal(t, awaitGradient(t, other, q), awaitGradient(t, m, q))
	}
	require.Equal(t, stepped(t, other, 1e-2), stepped(t, m, 1e-2)) // with the other gradients it would differ
}

// A load that failed because its checkpoint was missing is not repeated when there is one, and the model is made again.
func TestALoadThatFailedStaysUndone(t *testing.T) {
	s := serve(t, t.TempDir(), func(o *Options) { o.MaxModels = 1 }) // each leaves memory when the other is used
	n := s.connect(t)
	m, other := train(t, n, 1), train(t, n, 1)
	q := crossEntropy(weightedDatum(tokens1, 3, 1))
	require.ErrorContains(t, m.Load(t.Context(), "tinker://"+m.ID+"/weights/later", false), "user: ")
	for _, one := range []*client.Training{m, other} {
		awaitGradient(t, one, q)
		stepped(t, one, 1e-2)
		_, err := one.Save(t.Context(), "later")
		require.NoError(t, err)
		awaitGradient(t, one, q) // in the middle of a step no state is saved
	}
	require.Equal(t, stepped(t, other, 1e-2), stepped(t, m, 1e-2))
}
