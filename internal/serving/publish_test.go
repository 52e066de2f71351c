package serving

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Later requests are answered by the newly published adapter; running ones finish with the old one.
func TestPublishingTakesThePlaceOfTheOneBefore(t *testing.T) {
	b := backend(t)
	h, err := Open(t.Context(), Options{Backend: b, Sampling: small, Models: []NamedDir{{"x", "tiny"}}})
	require.NoError(t, err)
	run(t, h)
	base, err := h.Find("x")
	require.NoError(t, err)
	older, newer := saved(t, base, 3), saved(t, base, 4)
	hear := func(name string) sampler.Rollout {
		p, err := h.Find(name)
		require.NoError(t, err)
		return <-ask(t, p, "Print 2.", 5)
	}
	require.NoError(t, h.LoadAdapter("older", "", older))
	require.NoError(t, h.LoadAdapter("newer", "", newer))
	require.NotEqual(t, hear("older").LogProbs, hear("newer").LogProbs)

	require.NoError(t, h.LoadAdapter("it", "", older))
	it, err := h.Find("it")
	require.NoError(t, err)
	speaking := ask(t, it, "Print 2.", 5)
	a, err := lora.Load(newer, base.Language.Shape.LoRADims())
	require.NoError(t, err)
	freed, err := h.Publish("it", "x", a)
	require.NoError(t, err)
	require.Equal(t, hear("newer"), hear("it"))
	require.Equal(t, hear("older").LogProbs, (<-speaking).LogProbs)
	<-freed
	require.NoError(t, h.ReplaceAdapter("it", older), "after publishing, an adapter can be replaced from a directory")
	require.Equal(t, hear("older"), hear("it"))

	freed, err = h.Publish("another", "x", a)
	require.NoError(t, err)
	<-freed
	require.Equal(t, hear("newer"), hear("another"))
	for name, base := range map[string]string{"x": "x", "it": "y", "a b": "x"} {
		_, err := h.Publish(name, base, a)
		require.True(t, badinput.Is(err), "%s: %v", name, err)
	}
	require.ErrorContains(t, h.ReplaceAdapter("x", newer), "x is a model, and only adapters can be unloaded")
	require.Error(t, h.ReplaceAdapter("nobody", newer))
}

// A long answer of an adapter delays only the replacement of its own name.
func TestReplacementsOfOtherNamesDoNotWait(t *testing.T) {
	h, err := Open(t.Context(), Options{Backend: backend(t), Sampling: small, Models: []NamedDir{{"x", "tiny"}}})
	require.NoError(t, err)
	base, err := h.Find("x")
	require.NoError(t, err)
	older, newer := saved(t, base, 3), saved(t, base, 4)
	replaced := map[string]chan error{}
	for _, name := range []string{"busy", "slow"} {
		require.NoError(t, h.LoadAdapter(name, "", older))
		before, err := h.Find(name)
		require.NoError(t, err)
		ask(t, before, "Print 2.", 5) // it is not drawn before the host runs
		done := make(chan error, 1)
		replaced[name] = done
		go func() { done <- h.ReplaceAdapter(name, newer) }()
		require.Eventually(t, func() bool {
			now, err := h.Find(name)
			return err == nil && now.Adapter != before.Adapter
		}, 10*time.Second, time.Millisecond, "%s waits", name)
	}
	require.NoError(t, h.LoadAdapter("idle", "", older))
	require.NoError(t, h.ReplaceAdapter("idle", newer))
	require.NoError(t, h.UnloadAdapter("idle"))
	require.Len(t, h.Policies(), 3)
	require.Empty(t, replaced["busy"])
	run(t, h)
	require.NoError(t, <-replaced["busy"])
	require.NoError(t, <-replaced["slow"])
}

// A host over an open model answers like the bare model, whatever adapter is attached there.
func TestAHostOverAnOpenModel(t *testing.T) {
	b := backend(t)
	h, err := Open(t.Context(), Options{Backend: b, Sampling: small, Models: []NamedDir{{"x", "tiny"}}})
	require.NoError(t, err)
	run(t, h)
	x, err := h.Find("x")
	require.NoError(t, err)
	want := <-ask(t, x, "Print 2.", 5)

	h.BackendLock().Lock()
	p, err := model.Open(b, x.Language.Dir, false, model.Options{})
	require.NoError(t, err)
	a, err := lora.Load(saved(t, x, 3), p.LoRADims())
	require.NoError(t, err)
	require.NoError(t, p.Attach(a))
	h.BackendLock().Unlock()
	o := small
	o.Adapters = 1
	over, err := NewHostOver(b, h.BackendLock(), "y", x.Language, p, o)
	require.NoError(t, err)
	run(t, over)
	y, err := over.Find("y")
	require.NoError(t, err)
	require.Equal(t, want, <-ask(t, y, "Print 2.", 5))
	_, err = NewHostOver(b, new(sync.Mutex), "y/..", (*sources.Language)(nil), p, o)
	require.True(t, badinput.Is(err), "%v", err)
}
