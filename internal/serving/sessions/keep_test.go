package sessions

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo"
)

// A published name answers after a restart as before, also if a later step was kept but not published.
func TestANameSpeaksAsBefore(t *testing.T) {
	s := newServer(t)
	r, err := grpo.OpenRemote(t.Context(), grpo.RemoteOptions{URL: s.web.URL, Problems: problems(),
		Settings: map[string]any{"learning_rate": 0.01}})
	require.NoError(t, err)
	_, err = r.Step(t.Context(), nil, 0)
	require.NoError(t, err)
	_, err = r.Save(t.Context(), "mine")
	require.NoError(t, err)
	said := s.says("mine")
	_, err = r.Step(t.Context(), nil, 0)
	require.NoError(t, err)
	_, err = r.Save(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, said, s.says("mine"))
	require.NotContains(t, s.call("POST", "/v1/sessions/"+r.ID+"/finish", `{}`), "served_as", "the kept adapter is not the published one")
	s.stop()
	require.NoError(t, s.host.UnloadAdapter("mine"))
	s.start(Options{})
	require.Equal(t, said, s.says("mine"))
}

// Work of a session that is about to begin when a server closes has ended when Close returns, and no other begins.
func TestNothingBeginsOverAClosedServer(t *testing.T) {
	s := newServer(t)
	r, err := grpo.OpenRemote(t.Context(), grpo.RemoteOptions{URL: s.web.URL, Problems: problems()})
	require.NoError(t, err)
	for range 30 {
		s.stop()
		s.start(Options{})
		n := s.sessions[r.ID]
		rested := make(chan struct{})
		go func() {
			n.queueUnload() // as after an idle time
			close(rested)
		}()
		s.stop()
		<-rested
		n.mu.Lock()
		require.False(t, n.working)
		n.mu.Unlock()
	}
}
