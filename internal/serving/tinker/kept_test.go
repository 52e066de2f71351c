package tinker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each hole in the numbers of a model is waited for from when it is seen: one that was filled leaves nothing of its time to the next.
func TestAHoleThatWasFilledIsForgotten(t *testing.T) {
	s := serve(t, t.TempDir())
	m := train(t, s.connect(t), 1)
	r := s.server.runs[m.ID]
	waits := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return !r.missingSince.IsZero()
	}
	late, err := m.Again(t.Context(), "optim_step", 2, nil)
	require.NoError(t, err)
	require.Eventually(t, waits, 10*time.Second, time.Millisecond)
	_, err = m.Again(t.Context(), "optim_step", 1, nil)
	require.NoError(t, err)
	_, err = late.Wait(t.Context())
	require.NoError(t, err)
	require.False(t, waits())
}

// What a request brought is let go of once a state has what it did, and counted off once.
func TestBodiesAreLetGoOfOnce(t *testing.T) {
	s := serve(t, t.TempDir(), func(o *Options) { o.Replay = time.Nanosecond })
	m := train(t, s.connect(t), 1)
	r := s.server.runs[m.ID]
	for range 3 {
		learned(t, m, crossEntropy(lesson(text1, 3, 1)))
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

// A model that is at work when those are let go of that nobody asks keeps its requests.
func TestAModelAtWorkDoesNotFade(t *testing.T) {
	s := serve(t, t.TempDir())
	m := train(t, s.connect(t), 1)
	turn := s.server.bases["tiny"].Turn
	turn.Lock()
	f, err := m.ForwardBackward(t.Context(), crossEntropy(lesson(text1, 3, 1)))
	require.NoError(t, err)
	s.server.runs[m.ID].fade()
	turn.Unlock()
	_, err = f.Wait(t.Context())
	require.NoError(t, err)
	stepped(t, m, 1e-3)
}
