package serving

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/sampler"
)

func backend(t *testing.T) kernels.Backend {
	b := backendtest.CPU(t, cpu.Options{})
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// small are the limits of a test's host.
var small = sampler.Options{MaxLength: 128, MaxSequences: 4, CacheBytes: 4 << 20}

// run runs a host until the test ends, and closes it.
func run(t *testing.T, h *Host) {
	ended := make(chan error, 1)
	go func() { ended <- h.Run(context.Background()) }()
	t.Cleanup(func() {
		require.NoError(t, h.Close())
		require.NoError(t, <-ended)
	})
}

// asked is a prompt and its parameters for a policy.
func asked(t *testing.T, p *Policy, text string) (prompt []int32, params sampler.Params) {
	t.Helper()
	prompt, _, err := p.Language.Renderer.Prompt([]chat.Message{{Role: "user", Content: text}})
	require.NoError(t, err)
	return prompt, sampler.Params{Temperature: 1, MaxTokens: 12, StopTokens: p.Language.Stops}
}

// ask submits a prompt to a policy.
func ask(t *testing.T, p *Policy, text string, seed uint64) <-chan sampler.Rollout {
	t.Helper()
	prompt, params := asked(t, p, text)
	done := make(chan sampler.Rollout, 1)
	_, err := p.Live.Submit(sampler.Request{Prompt: prompt, N: 1, Key: sampler.Key{Seed: seed}, Adapter: p.Adapter, Params: params},
		sampler.Listener{Done: func(r sampler.Rollout) { done <- r }})
	require.NoError(t, err)
	return done
}

// interruptedBackend is a backend on which an interrupt arrives while a cache is allocated.
type interruptedBackend struct {
	kernels.Backend
	stop   func()
	caches int
}

func (b *interruptedBackend) NewCache(heads kernels.Heads, t kernels.DType, layers, blocks int) (kernels.Cache, error) {
	b.caches++
	b.stop()
	return b.Backend.NewCache(heads, t, layers, blocks)
}

// An interrupt while caches are allocated opens nothing, and allocates no more.
func TestAnInterruptWhileCachesAreMade(t *testing.T) {
	for _, models := range [][]NamedDir{{{"x", "tiny"}}, {{"x", "tiny"}, {"y", "tiny"}}} {
		ctx, stop := context.WithCancel(t.Context())
		b := &interruptedBackend{Backend: backend(t), stop: stop}
		_, err := Open(ctx, Options{Backend: b, Sampling: small, Models: models})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 1, b.caches)
	}
}

// Two models with the same weights give the same answers, side by side on one backend.
func TestModelsAnswerByName(t *testing.T) {
	h, err := Open(t.Context(), Options{Backend: backend(t), Sampling: small, Models: []NamedDir{{"b", "tiny"}, {"a/tiny", "tiny"}}})
	require.NoError(t, err)
	require.Equal(t, []string{"a/tiny", "b"}, names(h.Policies()))
	run(t, h)
	var answers []<-chan sampler.Rollout
	for _, name := range []string{"b", "a/tiny"} {
		p, err := h.Find(name)
		require.NoError(t, err)
		require.Equal(t, name, p.Base)
		require.False(t, p.Created.IsZero())
		answers = append(answers, ask(t, p, "Print 1.", 7))
	}
	first := <-answers[0]
	require.NotEmpty(t, first.Tokens)
	require.Equal(t, first, <-answers[1])
	_, err = h.Find("c")
	var missing *NotFoundError
	require.ErrorAs(t, err, &missing)
	require.EqualError(t, err, `model "c" is not served here; there are: a/tiny, b`)
}

func TestMistakesOfNames(t *testing.T) {
	b := backend(t)
	for message, models := range map[string][]NamedDir{
		"nothing to serve: expected a model; type --model tiny, or --model DIR":                             nil,
		`the name "x" is taken; type another NAME=DIR`:                                                      {{"x", "tiny"}, {"x", "tiny"}},
		`the name "a b" has a space or a control character`:                                                 {{"a b", "tiny"}},
		`model x: model "/nowhere": no such directory, and not the name of a model on the Hub (owner/name)`: {{"x", "/nowhere"}},
	} {
		_, err := Open(t.Context(), Options{Backend: b, Sampling: small, Models: models})
		require.EqualError(t, err, message)
		require.True(t, badinput.Is(err))
	}
	h, err := Open(t.Context(), Options{Backend: b, Sampling: small, Models: []NamedDir{{"x", "tiny"}, {"y", "tiny"}}})
	require.NoError(t, err)
	for message, err := range map[string]error{
		`the name "x" is taken; type another NAME=DIR`:                                   h.LoadAdapter("x", "", "dir"),
		`adapter z: several models are served; name its base model with base_model_name`: h.LoadAdapter("z", "", "dir"),
		`adapter z: model "w" is not served here; there are: x, y`:                       h.LoadAdapter("z", "w", "dir"),
		`model "z" is not served here; there are: x, y`:                                  h.UnloadAdapter("z"),
		`x is a model, and only adapters can be unloaded`:                                h.UnloadAdapter("x"),
		`the name is empty; type NAME=DIR`:                                               h.LoadAdapter("", "x", "dir"),
	} {
		require.EqualError(t, err, message)
	}
	for range DefaultAdapters + 1 { // a failed load must free its name and its slot
		require.ErrorContains(t, h.LoadAdapter("z", "x", "/nowhere"), "adapter z: stat /nowhere/adapter_config.json: no such file")
	}
	require.NoError(t, h.Close())
	require.ErrorIs(t, h.Run(t.Context()), sampler.ErrClosed)
}

func TestNamesOfDirectories(t *testing.T) {
	for text, want := range map[string]NamedDir{
		"tiny": {"tiny", "tiny"}, "/a/b/qwen/": {"qwen", "/a/b/qwen/"}, "me=/a/b": {"me", "/a/b"}, "me=/a=b": {"me", "/a=b"},
		"Qwen/Qwen3-0.6B@main": {"Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B@main"}, "../x/y": {"y", "../x/y"}, ".": {"serving", "."},
	} {
		got, err := ParseNamedDir(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "x=", "=/a", "a\nb=/a", "a/=/a", "/a=/a", "a//b=/a", "../a=/a", "a/./b=/a",
		".=/a", "..=/a", "/"} {
		_, err := ParseNamedDir(text)
		require.True(t, badinput.Is(err), "%q: %v", text, err)
	}
}

// The end of the context cancels requests, and does not count as unhealthy.
func TestTheEndOfAHost(t *testing.T) {
	h, err := Open(t.Context(), Options{Backend: backend(t), Sampling: small, Models: []NamedDir{{"x", "tiny"}}})
	require.NoError(t, err)
	p, err := h.Find("x")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var ended sampler.Rollout
	_, err = p.Live.Submit(sampler.Request{Prompt: []int32{1}, N: 1, Params: sampler.Params{MaxTokens: 100}},
		sampler.Listener{Token: func(sampler.Token) { cancel() }, Done: func(r sampler.Rollout) { ended = r }})
	require.NoError(t, err)
	require.ErrorIs(t, h.Run(ctx), context.Canceled)
	require.Equal(t, sampler.Cancelled, ended.Finish)
	require.NoError(t, errors.Join(h.Healthy(), h.Close()))
}
