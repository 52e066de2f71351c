package sampler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
)

// An engine that samples is not used again until it is done: both calls would draw from rows of the other.
func TestAnEngineIsUsedOnceAtATime(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	e := engine(t, open(t, b, "qwen3-tied", ""), Options{MaxLength: 16, MaxSequences: 2})
	r := []Request{{Prompt: []int32{1, 2}, N: 2, Params: Params{Temperature: 1, MaxTokens: 4}}}
	want, err := e.Sample(t.Context(), r, Events{})
	require.NoError(t, err)
	require.PanicsWithValue(t, "sampler.Engine.Sample: it is running already, in another goroutine or around this callback; "+
		"make another one, or wait until it is done", func() {
		_, _ = e.Sample(t.Context(), r, Events{Token: func(int, int, int32) { _, _ = e.Sample(t.Context(), r, Events{}) }})
	})
	got, err := e.Sample(t.Context(), r, Events{}) // the panic left nothing behind
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, e.Blocks, e.FreeBlocks())
}

// One goroutine runs a Live.
func TestALiveIsRunOnce(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	l, err := NewLive(open(t, b, "qwen3-tied", ""), Options{MaxLength: 16, MaxSequences: 2})
	require.NoError(t, err)
	done := make(chan error)
	go func() { done <- l.Run(t.Context()) }()
	require.Eventually(t, l.s.busy.Load, 10*time.Second, time.Millisecond)
	require.Panics(t, func() { _ = l.Run(t.Context()) })
	l.Close()
	require.NoError(t, <-done)
	require.NoError(t, l.Run(t.Context())) // nothing is left to do
}

// Options that are refused are named, where they would refuse all requests later, or mean nothing.
func TestOptionsBelowZero(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	p := open(t, b, "qwen3-tied", "")
	for _, o := range []Options{{Adapters: -1}, {MaxWaiting: -1}, {Pace: -1}, {CacheBytes: -1}} {
		o.MaxLength = 16
		_, err := New(p, o)
		require.ErrorContains(t, err, "expected none below 0")
	}
	require.PanicsWithValue(t, "sampler.StopStrings: the argument open is nil, expected a function that makes the text stream of a completion",
		func() { StopStrings([]string{"end"}, nil) })
}
