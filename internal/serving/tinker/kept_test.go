package tinker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each gap in a model's sequence numbers has its own time-out, from when it is noticed: a gap that was filled does not shorten the next
// one's.
func TestAHoleThatWasFilledIsForgotten(t *testing.T) {
	s := serve(t, t.TempDir())
	m := train(t, s.connect(t), 1)
	r := s.server.runs[m.ID]
	waits := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return !r.missingSince.IsZero()
	}
	late, err := m.Resend(t.Context(), "optim_step", 2, nil)
	require.NoError(t, err)
	require.Eventually(t, waits, 10*time.Second, time.Millisecond)
	_, err = m.Resend(t.Context(), "optim_step", 1, nil)
	require.NoError(t, err)
	_, err = late.Wait(t.Context())
	require.NoError(t, err)
	require.False(t, waits())
}

// The body of a request is freed once a state includes its effect, and subtracted once.
func TestBodiesAreLetGoOfOnce(t *testing.T) {
	s := serve(t, t.TempDir(), func(o *Options) { o.SnapshotAfter = time.Nanosecond })
	m := train(t, s.connect(t), 1)
	r := s.server.runs[m.ID]
	for range 3 {
		awaitGradient(t, m, crossEntropy(weightedDatum(tokens1, 3, 1)))
		stepped(t, m, 1e-3)
	}
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.saved == m.Seq
	}, 10*time.Second, time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Zero(t, r.held)
	require.Zero(t, r.account.held)
	for seq, e := range r.entries {
		require.Nil(t, e.body, seq)
	}
}

// A model that is working when idle ones are unloaded keeps its requests.
func TestAModelAtWorkDoesNotFade(t *testing.T) {
	s := serve(t, t.TempDir())
	m := train(t, s.connect(t), 1)
	turn := s.server.bases["tiny"].Lock
	turn.Lock()
	f, err := m.ForwardBackward(t.Context(), crossEntropy(weightedDatum(tokens1, 3, 1)))
	require.NoError(t, err)
	s.server.runs[m.ID].dropIdle()
	turn.Unlock()
	_, err = f.Wait(t.Context())
	require.NoError(t, err)
	stepped(t, m, 1e-3)
}
