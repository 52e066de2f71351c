package sampler

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
)

// backend is closed after all that runs on it has ended.
func backend(t testing.TB) kernels.Backend {
	b := backendtest.CPU(t, cpu.Options{})
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// live is a Live over a small model that runs until the test ends.
func live(t testing.TB, p *model.Policy, o Options) *Live {
	t.Helper()
	l, err := NewLive(p, o)
	require.NoError(t, err)
	l.s.drafts.eager = true
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		require.Equal(t, l.s.Blocks, l.s.FreeBlocks())
	})
	return l
}

// heard records the events of a request.
type heard struct {
	tokens map[int][]Token // by sample
	done   chan Rollout
}

func listen(r Request) (*heard, Listener) {
	h := &heard{tokens: map[int][]Token{}, done: make(chan Rollout, r.N)}
	return h, Listener{
		Token: func(t Token) { h.tokens[t.Sample] = append(h.tokens[t.Sample], t) },
		Done:  func(r Rollout) { h.done <- r },
	}
}

// wait returns the rollouts in the order of samples, and checks the tokens that were reported as they came.
func (h *heard) wait(t testing.TB, r Request) []Rollout {
	t.Helper()
	all := make([]Rollout, r.N)
	for range r.N {
		got := <-h.done
		all[got.Sample] = got
	}
	for _, got := range all {
		require.Len(t, h.tokens[got.Sample], len(got.Tokens))
		for i, token := range h.tokens[got.Sample] {
			require.Equal(t, Token{Sample: got.Sample, ID: got.Tokens[i], LogProb: got.LogProbs[i]}, token)
		}
	}
	return all
}

// Concurrent requests of many clients, each of which waits for its own, give the results of Sample.
func TestLiveDrawsWhatSampleDraws(t *testing.T) {
	b := backend(t)
	p := open(t, b, "qwen3-tied", "adapter")
	asked := requests(p.Vocab, 1, 24)
	want := sampleAll(t, engine(t, p, Options{MaxLength: 128, NoDrafts: true}), asked)
	l := live(t, p, Options{MaxLength: 128, MaxSequences: 9, TokenBudget: 40, CacheBytes: 8 * 6 * int64(p.BlockBytes())})
	got := make([][]Rollout, len(asked))
	var clients sync.WaitGroup
	for i, r := range asked {
		clients.Go(func() {
			h, on := listen(r)
			_, err := l.Submit(r, on)
			if err == nil {
				got[i] = h.wait(t, r)
			}
		})
	}
	clients.Wait()
	for _, w := range want {
		r := got[w.Request][w.Sample]
		r.Request = w.Request
		require.Equal(t, w, r)
	}
}

func TestCancelledRequestsEndAndOthersGoOn(t *testing.T) {
	b := backend(t)
	p := open(t, b, "qwen3-tied", "")
	long := Request{Prompt: []int32{1, 2, 3}, N: 3, Params: Params{Temperature: 1, MaxTokens: 60}}
	want := sampleAll(t, engine(t, p, Options{MaxLength: 64, NoDrafts: true}), []Request{long})
	l := live(t, p, Options{MaxLength: 64, MaxSequences: 5})
	leaving, done := make(chan *Ticket, 1), make(chan Rollout, 3)
	seen := 0
	ticket, err := l.Submit(long, Listener{Token: func(Token) {
		if seen++; seen == 10 {
			(<-leaving).Cancel()
		}
	}, Done: func(r Rollout) { done <- r }})
	require.NoError(t, err)
	h, on := listen(long)
	_, err = l.Submit(long, on)
	require.NoError(t, err)
	leaving <- ticket
	for range 3 {
		r := <-done
		require.Less(t, len(r.Tokens), 20)
		require.Equal(t, Cancelled, r.Finish)
		require.Equal(t, want[r.Sample].Tokens[:len(r.Tokens)], r.Tokens)
	}
	require.Equal(t, want, h.wait(t, long))
	ticket.Cancel() // again, after its end
}

func TestAFullOrClosedLiveRefuses(t *testing.T) {
	b := backend(t)
	p := open(t, b, "qwen3-tied", "")
	l, err := NewLive(p, Options{MaxLength: 64, MaxWaiting: 2})
	require.NoError(t, err)
	r := Request{Prompt: []int32{1}, N: 2, Params: Params{MaxTokens: 3}}
	h, on := listen(r)
	_, err = l.Submit(r, on)
	require.NoError(t, err)
	_, err = l.Submit(r, Listener{})
	require.NoError(t, err)
	_, err = l.Submit(r, Listener{})
	require.ErrorIs(t, err, ErrBusy)
	_, err = l.Submit(Request{N: 1}, Listener{})
	require.True(t, badinput.Is(err), "%v", err)
	r.From = "ada" // ada has a queue of her own; concurrent requests are admitted together
	many := slices.Repeat([]Request{r}, 5)
	_, err = l.SubmitAll(append(many, Request{N: 1}), make([]Listener, 6))
	require.True(t, badinput.Is(err), "%v", err)
	_, err = l.SubmitAll(many, nil)
	require.ErrorContains(t, err, "0 listeners for 5 requests, expected one for each")
	_, err = l.Submit(r, Listener{})
	require.NoError(t, err, "refused requests must not take places in the queue")
	all, err := l.SubmitAll(many, make([]Listener, 5))
	require.NoError(t, err)
	for _, ticket := range all {
		ticket.Cancel()
	}
	_, err = l.SubmitAll(many, make([]Listener, 5))
	require.NoError(t, err, "cancelled requests do not count as waiting")
	_, err = l.Submit(r, Listener{})
	require.ErrorIs(t, err, ErrBusy)
	l.receive() // hands the requests over to be drawn
	_, err = l.Submit(r, Listener{})
	require.ErrorIs(t, err, ErrBusy)
	r.From = ""
	l.Close()
	_, err = l.Submit(r, Listener{})
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, l.Run(t.Context()), "accepted requests are completed")
	for _, got := range h.wait(t, r) {
		require.Equal(t, Length, got.Finish)
	}
	require.Equal(t, l.s.Blocks, l.s.FreeBlocks())
}

// A prompt that has begun no longer counts as waiting, scored or not, and is not counted again if it is cancelled later.
func TestWhatIsBegunDoesNotWait(t *testing.T) {
	l, err := NewLive(open(t, backend(t), "qwen3-tied", ""), Options{MaxLength: 64, MaxSequences: 8, MaxWaiting: 2})
	require.NoError(t, err)
	require.Equal(t, l.s.Blocks, l.FreeBlocks())
	r := Request{Prompt: []int32{1, 2}, N: 1, Params: Params{MaxTokens: 30}}
	both := []Request{r, r}
	both[1].ScorePrompt = true
	all, err := l.SubmitAll(both, make([]Listener, 2))
	require.NoError(t, err)
	_, err = l.Submit(r, Listener{})
	require.ErrorIs(t, err, ErrBusy)
	require.True(t, step(t, l))
	l.receive()
	require.Less(t, l.FreeBlocks(), l.s.Blocks)
	for range 2 {
		_, err = l.Submit(r, Listener{})
		require.NoError(t, err)
	}
	for _, ticket := range all {
		ticket.Cancel()
	}
	_, err = l.Submit(r, Listener{})
	require.ErrorIs(t, err, ErrBusy)
	<-l.wake
	l.Close()
	require.Len(t, l.wake, 1, "Run sees it, also where it sleeps")
	require.NoError(t, l.Run(t.Context()))
	require.Equal(t, l.s.Blocks, l.FreeBlocks())
}

func TestTheEndOfTheContextEndsRequests(t *testing.T) {
	b := backend(t)
	l, err := NewLive(open(t, b, "qwen3-tied", ""), Options{MaxLength: 64})
	require.NoError(t, err)
	r := Request{Prompt: []int32{1}, N: 2, Params: Params{Temperature: 1, MaxTokens: 50}}
	ctx, cancel := context.WithCancel(t.Context())
	var ended []Rollout
	on := Listener{Token: func(Token) { cancel() }, Done: func(r Rollout) { ended = append(ended, r) }}
	for range 2 {
		_, err = l.Submit(r, on)
		require.NoError(t, err)
	}
	require.ErrorIs(t, l.Run(ctx), context.Canceled)
	require.Len(t, ended, 4)
	for _, r := range ended {
		require.Equal(t, Cancelled, r.Finish)
		require.ErrorIs(t, r.Err, context.Canceled)
		require.NotEmpty(t, r.Tokens)
	}
	_, err = l.Submit(r, on)
	require.True(t, errors.Is(err, ErrClosed) && errors.Is(err, context.Canceled), "%v", err)
	require.Equal(t, l.s.Blocks, l.s.FreeBlocks())
}

// Iterations of 64 sequences by a call of Sample, and by a Live, which also maintains the prefix cache and receives requests.
func BenchmarkIterations(b *testing.B) {
	p := open(b, backend(b), "qwen3-tied", "")
	o := Options{MaxLength: 256, MaxSequences: 64}
	asked := make([]Request, 64)
	for i := range asked {
		asked[i] = Request{Prompt: []int32{int32(i), 2, 3}, N: 1, Key: Key{Seed: uint64(i)}, Params: Params{Temperature: 1, MaxTokens: 200}}
	}
	b.Run("Sample", func(b *testing.B) {
		e := engine(b, p, o)
		for b.Loop() {
			sampleAll(b, e, asked)
		}
		b.ReportMetric(200*float64(b.N)/b.Elapsed().Seconds(), "iterations/s")
	})
	b.Run("Live", func(b *testing.B) {
		l := live(b, p, o)
		for b.Loop() {
			var done sync.WaitGroup
			done.Add(len(asked))
			for _, r := range asked {
				_, err := l.Submit(r, Listener{Done: func(Rollout) { done.Done() }})
				require.NoError(b, err)
			}
			done.Wait()
		}
		b.ReportMetric(200*float64(b.N)/b.Elapsed().Seconds(), "iterations/s")
	})
}
