package serving

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// saved is a directory with an adapter of the model, whose values depend on the seed.
func saved(t *testing.T, p *Policy, seed uint64) string {
	layout, err := lora.NewLayout(lora.Config{Rank: 4, Alpha: 64, Targets: lora.AllTargets()}, p.Language.Shape.LoRADims())
	require.NoError(t, err)
	a := lora.New(layout)
	a.Init(seed)
	for i := range a.Values {
		a.Values[i] += float32(i%7) / 50 // B, too, is not zero
	}
	dir := filepath.Join(t.TempDir(), "adapter")
	require.NoError(t, a.Save(dir, "tiny"))
	return dir
}

// Adapters are loaded and unloaded while other requests run, and give the answers of the model with the adapter attached.
func TestAdaptersComeAndGo(t *testing.T) {
	b := backend(t)
	h, err := Open(t.Context(), Options{Backend: b, Sampling: small, Models: []NamedDir{{"x", "tiny"}}})
	require.NoError(t, err)
	run(t, h)
	base, err := h.Find("x")
	require.NoError(t, err)
	dir := saved(t, base, 3)
	require.NoError(t, h.LoadAdapter("taught", "", dir))
	require.ErrorContains(t, h.LoadAdapter("taught", "x", dir), `the name "taught" is taken`)
	require.ErrorContains(t, h.LoadAdapter("more", "taught", dir), "its base model taught is an adapter itself; expected a model, such as x")
	taught, err := h.Find("taught")
	require.NoError(t, err)
	require.Equal(t, "x", taught.Base)

	spoken, own := ask(t, taught, "Print 2.", 5), ask(t, base, "Print 2.", 5)
	require.NoError(t, h.UnloadAdapter("taught"), "unloading waits for running requests")
	got, bare := <-spoken, <-own
	require.NoError(t, got.Err)
	require.NotEqual(t, sampler.Cancelled, got.Finish)
	require.NotEqual(t, got.LogProbs, bare.LogProbs)
	require.Equal(t, []string{"x"}, names(h.Policies()))
	_, err = taught.Live.Submit(sampler.Request{Prompt: []int32{1}, N: 1, Adapter: taught.Adapter,
		Params: sampler.Params{MaxTokens: 1}}, sampler.Listener{})
	require.ErrorIs(t, err, sampler.ErrWithdrawn)
	require.NoError(t, h.LoadAdapter("taught", "x", saved(t, base, 4)), "a name is free after its adapter was unloaded")

	h.BackendLock().Lock() // blocks the host, which needs the backend
	defer h.BackendLock().Unlock()
	p, err := model.Open(b, base.Language.Dir, false, model.Options{})
	require.NoError(t, err)
	a, err := lora.Load(dir, p.LoRADims())
	require.NoError(t, err)
	require.NoError(t, p.Attach(a))
	e, err := sampler.New(p, small)
	require.NoError(t, err)
	prompt, params := asked(t, base, "Print 2.")
	want, err := e.Sample(t.Context(), []sampler.Request{{Prompt: prompt, N: 1, Key: sampler.Key{Seed: 5}, Params: params}}, sampler.Events{})
	require.NoError(t, err)
	require.Equal(t, want[0], got)
}

// A model served in 4 bits gives the answers of the sampler, and takes less memory.
func TestAModelInFourBits(t *testing.T) {
	b := backend(t)
	four := model.Options{Quantise: model.NF4}
	h, err := Open(t.Context(), Options{Backend: b, Model: four, Sampling: small, Models: []NamedDir{{"x", "tiny"}}})
	require.NoError(t, err)
	run(t, h)
	x, err := h.Find("x")
	require.NoError(t, err)
	got := <-ask(t, x, "Print 2.", 5)

	h.BackendLock().Lock()
	defer h.BackendLock().Unlock()
	whole, err := model.Open(b, x.Language.Dir, false, model.Options{})
	require.NoError(t, err)
	require.Less(t, x.Model.WeightBytes(), whole.WeightBytes())
	p, err := model.Open(b, x.Language.Dir, false, four)
	require.NoError(t, err)
	e, err := sampler.New(p, small)
	require.NoError(t, err)
	prompt, params := asked(t, x, "Print 2.")
	want, err := e.Sample(t.Context(), []sampler.Request{{Prompt: prompt, N: 1, Key: sampler.Key{Seed: 5}, Params: params}}, sampler.Events{})
	require.NoError(t, err)
	require.Equal(t, want[0], got)
}
