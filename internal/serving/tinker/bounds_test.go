package tinker

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
)

// After long training only the last requests of a model are in memory and in its journal; older ones are answered as gone, also by the
// next server, which continues where this one was.
func TestOldRequestsAreForgotten(t *testing.T) {
	few := func(o *Options) { o.MaxResults, o.SnapshotAfter, o.CompactAt = 4, time.Nanosecond, 1 }
	s := serve(t, t.TempDir(), few)
	n := s.connect(t)
	m := train(t, n, 1)
	for range 20 {
		stepped(t, m, 1e-3)
	}
	old, last := map[string]string{"request_id": m.ID + "#2"}, map[string]string{"request_id": m.ID + "#20"}
	r := s.server.runs[m.ID]
	known := func() (n int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.entries)
	}
	require.LessOrEqual(t, known(), 4+3) // the first, and those since the last snapshot
	want := s.get(t, "POST", "retrieve_future", last)
	s.refused(t, http.StatusGone, "POST", "retrieve_future", old)
	again := map[string]any{"adam_params": map[string]any{"learning_rate": 1}}
	_, err := m.Resend(t.Context(), "optim_step", 2, again)
	require.NoError(t, err, "a repeated request is accepted, and not executed again")
	require.Equal(t, 20, int(want["metrics"].(map[string]any)["updates"].(float64)))

	s.server.stop()
	s.server.work.Wait()
	copied := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.CopyFS(copied, os.DirFS(s.store)))
	s = serve(t, copied, few)
	require.Equal(t, want, s.get(t, "POST", "retrieve_future", last))
	s.refused(t, http.StatusGone, "POST", "retrieve_future", old)
	s.refused(t, http.StatusNotFound, "POST", "retrieve_future", map[string]string{"request_id": m.ID + "#22"})
	m.Session = &client.Session{Client: s.Client, ID: n.ID}
	require.EqualValues(t, 21, stepped(t, m, 1e-3)["metrics"].(map[string]any)["updates"])
}

// An idle model has no requests in memory; a poll reads the result from the journal, and its memory counts once.
func TestWhatSleepsIsRead(t *testing.T) {
	s := serve(t, t.TempDir(), func(o *Options) { o.IdleTimeout = time.Millisecond })
	m := train(t, s.connect(t), 1)
	r := s.server.runs[m.ID]
	asleep := func() {
		t.Helper()
		require.Eventually(t, func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.entries == nil && r.held == 0
		}, 10*time.Second, time.Millisecond)
	}
	awaitGradient(t, m, crossEntropy(weightedDatum(tokens1, 3, 1))) // in the middle of a step, which is repeated
	asleep()
	want, err := s.Wait(t.Context(), m.ID+"#1")
	require.NoError(t, err)
	asleep()
	stepped(t, m, 1e-2)
	asleep()
	require.EqualValues(t, 0, s.server.account("").held)
	s.refused(t, http.StatusNotFound, "POST", "retrieve_future", map[string]string{"request_id": m.ID + "#9"})
	s.get(t, "POST", "unload_model", map[string]string{"model_id": m.ID})
	asleep()
	require.Equal(t, m.ID, s.get(t, "POST", "retrieve_future", map[string]string{"request_id": m.ID + "#" + unload})["model_id"])
	again, err := s.Wait(t.Context(), m.ID+"#1")
	require.NoError(t, err)
	require.Equal(t, want, again)
}

// For polls of an idle model, only requests after its snapshot are held in memory.
func TestWhatASnapshotHasIsNotHeld(t *testing.T) {
	s := serve(t, t.TempDir(), func(o *Options) { o.SnapshotAfter = time.Nanosecond })
	m := train(t, s.connect(t), 1)
	awaitGradient(t, m, crossEntropy(weightedDatum(tokens1, 3, 1)))
	stepped(t, m, 1e-2)
	want, err := s.Wait(t.Context(), m.ID+"#1")
	require.NoError(t, err)
	s.server.stop()
	s.server.work.Wait()
	copied := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.CopyFS(copied, os.DirFS(s.store)))
	s = serve(t, copied)
	again, err := s.Wait(t.Context(), m.ID+"#1")
	require.NoError(t, err)
	require.Equal(t, want, again)
	require.Zero(t, s.server.account("").held)
	m.Session = &client.Session{Client: s.Client}
	awaitGradient(t, m, crossEntropy(weightedDatum(tokens1, 3, 1)))
	require.EqualValues(t, 2, stepped(t, m, 1e-2)["metrics"].(map[string]any)["updates"])
}

// Sampling sessions, and the metadata of a session, are only in the store.
func TestSessionsAreInTheStore(t *testing.T) {
	s := serve(t, t.TempDir(), func(o *Options) { o.MaxUnnamed = 2 })
	made := s.get(t, "POST", "create_session", map[string]any{"tags": []string{"a"}, "user_metadata": map[string]any{"run": "x"}})
	n := &client.Session{Client: s.Client, ID: made["session_id"].(string)}
	m := train(t, n, 1)
	named, err := n.Sampling(t.Context(), "tiny", "")
	require.NoError(t, err)
	var unnamed []*client.Sampling
	for range 3 {
		v, err := m.Sampling(t.Context())
		require.NoError(t, err)
		_, err = v.Sample(t.Context(), tokens1, drawExactly(1, 2, 1))
		require.NoError(t, err)
		unnamed = append(unnamed, v)
	}
	require.Nil(t, s.server.sessions[n.ID].Metadata)
	about := s.get(t, "GET", "sessions/"+n.ID, nil)
	require.Equal(t, map[string]any{"run": "x"}, about["user_metadata"])
	require.ElementsMatch(t, []any{named.ID, unnamed[1].ID, unnamed[2].ID}, about["sampler_ids"])
	files, err := filepath.Glob(filepath.Join(s.store, "samplers", "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)

	// A finished sample is returned though the weights are gone; a new one fails, and says what to do.
	_, err = s.Wait(t.Context(), unnamed[0].ID+"#0")
	require.NoError(t, err)
	_, err = unnamed[0].Sample(t.Context(), tokens1, drawExactly(1, 2, 1))
	require.ErrorContains(t, err, "these weights are gone")
	s.get(t, "GET", "samplers/"+unnamed[1].ID, nil)
	for _, id := range []string{unnamed[0].ID, m.ID + ":sample:999",
		m.ID + ":sample:01", m.ID + ":sample:x", n.ID + ":sample:7", n.ID + "_sample_0", "../x"} {
		s.refused(t, http.StatusNotFound, "GET", "samplers/"+url.PathEscape(id), nil)
	}
}
