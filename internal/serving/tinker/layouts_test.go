package tinker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
)

// At the limit of layouts, another one has room as soon as the unload of a model is answered.
func TestAnUnloadedModelGivesItsLayoutFree(t *testing.T) {
	s := serve(t, t.TempDir(), func(o *Options) { o.MaxLayouts, o.IdleTimeout = 1, 50*time.Millisecond })
	n := s.connect(t)
	m, turn := train(t, n, 1), s.server.bases["tiny"].Lock
	turn.Lock()
	f, err := m.ForwardBackward(t.Context(), crossEntropy(weightedDatum(tokens1, 3, 1)))
	require.NoError(t, err)
	_, err = n.Train(t.Context(), "tiny", 2, 0)
	require.ErrorContains(t, err, "unload one")
	turn.Unlock()
	_, err = f.Wait(t.Context())
	require.NoError(t, err)
	s.get(t, "POST", "unload_model", map[string]string{"model_id": n.ID + ":train:0"})
	_, err = s.Wait(t.Context(), n.ID+":train:0#"+unload)
	require.NoError(t, err)
	_, err = s.connect(t).Train(t.Context(), "tiny", 2, 0)
	require.NoError(t, err)
}

// At the limit of layouts, any unused one makes room for another.
func TestAnyLayoutThatIsFreeMakesRoom(t *testing.T) {
	s := serve(t, t.TempDir())
	key := func(rank int) benchKey { return benchKey{base: "tiny", rank: rank, attn: true} }
	for rank := 1; rank <= s.server.MaxLayouts; rank++ {
		_, err := s.server.findBench(key(rank))
		require.NoError(t, err)
	}
	for rank := 1; rank <= 4*s.server.MaxLayouts; rank++ {
		_, err := s.server.findBench(key(rank + s.server.MaxLayouts))
		require.ErrorContains(t, err, "unload one")
		s.server.release(key(rank))
		_, err = s.server.findBench(key(rank + s.server.MaxLayouts))
		require.NoError(t, err)
		require.Len(t, s.server.benches, s.server.MaxLayouts)
	}
}

// At the limit of layouts, an idle one makes room for another at once: of several the least recently used, and none with a pending
// request. What a model has learned is kept, also in the middle of a step.
func TestALayoutWithoutWorkMakesRoom(t *testing.T) {
	q := crossEntropy(weightedDatum(tokens1, 3, 1))
	lessons := func(s *site, disturb func(n *client.Session)) (out []any) {
		n := s.connect(t)
		first, err := n.Train(t.Context(), "tiny", 1, 1)
		require.NoError(t, err)
		out = append(out, awaitGradient(t, first, q))
		disturb(n)
		return append(out, stepped(t, first, 1e-2), awaitGradient(t, first, q))
	}
	want := lessons(serve(t, t.TempDir()), func(*client.Session) {})
	s, rank := serve(t, t.TempDir(), func(o *Options) { o.MaxLayouts = 2 }), 2
	ranks := func() (all []int) {
		s.server.benchMu.Lock()
		defer s.server.benchMu.Unlock()
		for k := range s.server.benches {
			all = append(all, k.rank)
		}
		return all
	}
	require.Equal(t, want, lessons(s, func(n *client.Session) {
		for range 2 {
			_, err := n.Train(t.Context(), "tiny", rank, 1)
			require.NoError(t, err)
			rank++
		}
		require.ElementsMatch(t, []int{rank - 2, rank - 1}, ranks(), "the least recently used layout made room")
	}))

	turn := s.server.bases["tiny"].Lock
	n := s.connect(t)
	busy, err := n.Train(t.Context(), "tiny", 8, 1)
	require.NoError(t, err)
	idle, err := n.Train(t.Context(), "tiny", 9, 1)
	require.NoError(t, err)
	turn.Lock()
	f, err := busy.ForwardBackward(t.Context(), q)
	require.NoError(t, err)
	require.True(t, s.server.makeRoom("tiny"))
	yields := func(m *client.Training) bool {
		r := s.server.runs[m.ID]
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.yields
	}
	require.True(t, yields(idle))
	require.False(t, yields(busy), "a busy model must not yield")
	turn.Unlock()
	_, err = f.Wait(t.Context())
	require.NoError(t, err)
}
