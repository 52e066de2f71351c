package sessions

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/internal/provenance"
)

// A saved adapter names the weights that it was trained on, and after a restart is served only over those. An older one without that
// record is served, and logged.
func TestSavedAdaptersKnowTheirBase(t *testing.T) {
	s := newServer(t)
	r, err := grpo.OpenRemote(t.Context(), grpo.RemoteOptions{URL: s.web.URL, Problems: problems()})
	require.NoError(t, err)
	_, err = r.Step(t.Context(), nil, 0)
	require.NoError(t, err)
	_, err = r.Save(t.Context(), "mine")
	require.NoError(t, err)
	file := filepath.Join(s.Store, r.ID, "saved", "1", provenance.BaseFile)
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	models := func() string { return s.call("GET", "/v1/models", "") }
	require.Contains(t, models(), `"mine"`)

	again := func(text []byte) string {
		s.stop()
		require.NoError(t, s.host.UnloadAdapter("mine"))
		require.NoError(t, os.Remove(file))
		if text != nil {
			require.NoError(t, os.WriteFile(file, text, 0o600))
		}
		var log bytes.Buffer
		s.start(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if text == nil {
			require.NoError(t, os.WriteFile(file, written, 0o600))
		}
		return log.String()
	}
	require.Empty(t, again(written))
	require.Contains(t, again(nil), "the base weights of an adapter are not recorded")
	require.Contains(t, models(), `"mine"`)
	p, known, err := provenance.BaseOf(filepath.Dir(file))
	require.NoError(t, err)
	require.True(t, known)
	sum := p.Files["model.safetensors"]
	other := again([]byte(strings.ReplaceAll(string(written), sum, strings.Repeat("0", len(sum)))))
	require.Contains(t, other, "trained on another model")
	require.NotContains(t, models(), `"mine"`)

	require.NoError(t, os.WriteFile(file, written, 0o600))
	require.NoError(t, s.host.LoadAdapter("mine", "", filepath.Dir(file)), "the name is somebody else's now")
	at := "/v1/sessions/" + r.ID
	require.Contains(t, s.call("POST", at+"/save", `{"serve_as":"mine"}`), "is taken; send another serve_as")
	require.Contains(t, s.call("POST", at+"/save", `{"serve_as":"own"}`), `"served_as":"own"`)
	require.Contains(t, s.call("DELETE", at, ""), "200 ")
	require.Contains(t, models(), `"mine"`)
	require.NotContains(t, models(), `"own"`)
}

// A step that makes the policy non-finite is refused with advice for the client, and leaves the session unchanged: what is saved
// afterwards is intact.
func TestAStepThatLosesThePolicy(t *testing.T) {
	s := newServer(t)
	r, err := grpo.OpenRemote(t.Context(), grpo.RemoteOptions{URL: s.web.URL, Problems: problems(),
		Settings: map[string]any{"learning_rate": 1e30}})
	require.NoError(t, err)
	for range 2 {
		said := s.call("POST", "/v1/sessions/"+r.ID+"/train_step", `{"step":1}`)
		require.Contains(t, said, `400 {"error":{"message":"settings: the update left log-probabilities that are not finite; the session stays `+
			`as it was: begin another one with a lower learning_rate"`)
	}
	_, err = r.Save(t.Context(), "mine")
	require.NoError(t, err)
	require.Equal(t, s.says("tiny"), s.says("mine"), "an adapter that has learned nothing")
	require.Contains(t, s.call("GET", "/v1/sessions/"+r.ID, ""), `"steps":0`)
}

// A refusal does not quote all of a long value.
func TestALongSettingIsQuotedInPart(t *testing.T) {
	got := newServer(t).call("POST", "/v1/sessions", `{"settings":{"seed":"`+strings.Repeat("a", 9000)+`"}}`)
	require.Contains(t, got, "400 ")
	require.Less(t, len(got), 1200)
}
