package sessions

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo"
)

// A session shows its settings after a restart as before: those of its record or, if that has none, of its run.
func TestSettingsAfterARestart(t *testing.T) {
	s := newServer(t)
	r, err := grpo.OpenRemote(t.Context(), grpo.RemoteOptions{URL: s.web.URL, Problems: problems(),
		Settings: map[string]any{"learning_rate": 0.01, "seed": uint64(1) << 60}})
	require.NoError(t, err)
	_, err = r.Step(t.Context(), nil, 0)
	require.NoError(t, err)
	settings := func() string {
		var state struct{ Settings json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(s.call("GET", "/v1/sessions/"+r.ID, "")[4:]), &state))
		return string(state.Settings)
	}
	before := settings()
	require.Contains(t, before, `"learning_rate":0.01,`)
	require.Contains(t, before, `"seed":1152921504606846976,`)
	require.Contains(t, s.call("GET", "/v1/sessions/"+r.ID+"/saved/9", ""), "step 9 was not saved; none is yet")
	_, err = r.Save(t.Context(), "")
	require.NoError(t, err)
	_, err = r.Step(t.Context(), nil, 0)
	require.NoError(t, err)
	_, err = r.Save(t.Context(), "")
	require.NoError(t, err)
	require.Contains(t, s.call("GET", "/v1/sessions/"+r.ID+"/saved/9", ""), "step 9 was not saved; there are: 1, 2")
	s.stop()
	s.start(Options{})
	require.Equal(t, before, settings())

	s.stop()
	file := filepath.Join(s.Store, r.ID, recordFile)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var kept map[string]any
	require.NoError(t, json.Unmarshal(text, &kept))
	delete(kept, "shown")
	text, err = json.Marshal(kept)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	s.start(Options{})
	require.Equal(t, before, settings())
}

// A repeated request for an existing session, by a client that got no answer, does not harm it even if it cannot be opened at the moment.
func TestAskedForAgainASessionStays(t *testing.T) {
	s := newServer(t)
	begin := func() string { return s.begin("once", `{"settings":{"seed":7}}`) }
	require.Contains(t, begin(), "200 ")
	n := s.sessions[idOf("", "once")]
	require.NoError(t, n.write(func(r *record) { r.Steps = []string{"of its first step"} }))
	s.stop()
	run := n.file(runFolder)
	require.NoError(t, os.WriteFile(run, nil, 0o600))
	s.start(Options{})
	require.Contains(t, begin(), "not a directory")
	require.Contains(t, s.call("GET", "/v1/sessions/"+n.ID, ""), `"steps":1`)
	require.FileExists(t, n.file(recordFile))

	n = s.sessions[n.ID]
	require.NoError(t, n.write(func(r *record) { r.Steps = nil }))
	require.Contains(t, begin(), "not a directory")
	require.NoFileExists(t, n.file(recordFile), "a session that failed to begin has no record")
	require.Error(t, n.ctx.Err())
}

// A repeated request for a session, or a save, is answered with the current state.
func TestASessionIsToldAsItIs(t *testing.T) {
	s := newServer(t)
	begin := func() string { return s.begin("once", `{"settings":{"seed":7}}`) }
	require.Contains(t, begin(), `"steps":0`)
	at := "/v1/sessions/" + idOf("", "once")
	require.Contains(t, s.call("POST", at+"/train_step", `{"step":1}`), "200 ")
	require.Contains(t, begin(), `"steps":1`)
	for _, name := range []string{"one", "two", "one"} {
		require.Contains(t, s.call("POST", at+"/save", `{"serve_as":"`+name+`"}`), `"served_as":"`+name+`"`)
		_, err := s.host.Find(name)
		require.NoError(t, err)
		require.Contains(t, begin(), `"served_as":"`+name+`"`)
	}
}
