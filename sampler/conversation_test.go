package sampler

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/splitmix"
	"github.com/seed-7879b91d/grpo/model"
)

// environment replies by what a turn says, and ends conversations after some turns. Every other reply comes from another goroutine, in any
// order.
type environment struct {
	vocab, turns int
	late         sync.WaitGroup
}

func (w *environment) next(sofar Rollout, reply func(More)) {
	sum := uint64(len(sofar.Tokens))
	for _, t := range sofar.Tokens {
		sum = splitmix.At(sum+uint64(t), 0)
	}
	rng := rand.New(rand.NewPCG(sum, uint64(sofar.Sample)))
	more := More{Tokens: randomTokens(rng, w.vocab, []int{0, 1, 3, 17, 32, 40}[rng.IntN(6)]), MaxTokens: 1 + rng.IntN(9)}
	if len(sofar.Turns) == w.turns {
		more = More{}
	}
	if sum%2 == 0 {
		reply(more)
		return
	}
	w.late.Go(func() { reply(more) })
}

// conversations are requests of all kinds, most of which continue after their first turn.
func (w *environment) conversations(n int) []Request {
	asked := requests(w.vocab, 1, n)
	for i := range asked {
		if i%4 != 3 {
			asked[i].Next = w.next
			asked[i].Params.MaxTokens = 1 + i%9
		}
	}
	return asked
}

// checkTurns compares the log-probabilities of drawn tokens with the trainer's, and requires 0 for the others.
func checkTurns(t *testing.T, p *model.Policy, asked []Request, rollouts []Rollout) {
	t.Helper()
	var sequences [][]int32
	for _, r := range rollouts {
		sequences = append(sequences, slices.Concat(asked[r.Request].Prompt, r.Tokens))
	}
	scores, err := p.Score(t.Context(), sequences, 1)
	require.NoError(t, err)
	for i, r := range rollouts {
		want := slices.Clone(scores[i][len(asked[r.Request].Prompt)-1:])
		if asked[r.Request].Next == nil {
			require.Nil(t, r.Turns)
			require.Equal(t, want, r.LogProbs)
			continue
		}
		at := 0
		for _, turn := range r.Turns {
			require.Less(t, turn.Start, turn.End)
			clear(want[at:turn.Start])
			at = turn.End
		}
		require.Equal(t, want, r.LogProbs, "request %d", r.Request)
		require.Equal(t, r.Turns[len(r.Turns)-1], Turn{Start: r.Turns[len(r.Turns)-1].Start, End: len(r.Tokens), Finish: r.Finish})
	}
}

// The same conversations alone, beside others, in any chunks, in caches so small that sequences are preempted, and in a Live with a
// prefix cache: the same tokens and bits, which are the trainer's.
func TestNothingAroundAConversationChangesIt(t *testing.T) {
	for _, name := range []string{"qwen3-tied", "mistral-yarn"} {
		p := open(t, backend(t), name, "adapter")
		w := &environment{vocab: p.Vocab, turns: 3}
		asked := w.conversations(6)
		var want []Rollout
		alone := engine(t, p, Options{MaxLength: 272, MaxSequences: 1, TokenBudget: 29, NoDrafts: true})
		for i, r := range asked {
			for _, got := range sampleAll(t, alone, []Request{r}) {
				got.Request = i
				want = append(want, got)
			}
		}
		checkTurns(t, p, asked, want)
		tight := int64(p.BlockBytes()) * int64(272/p.CacheBlock()+2)
		for _, o := range []Options{
			{MaxLength: 272, MaxSequences: 5, CacheBytes: 30 * tight},
			{MaxLength: 272, MaxSequences: 64, TokenBudget: 40, CacheBytes: tight},
		} {
			e := engine(t, p, o)
			require.Equal(t, want, sampleAll(t, e, asked), "%s, %+v", name, o)
			require.Equal(t, o.CacheBytes == tight, e.Preempted+e.Dropped > 0, "%+v: %d preempted, %d dropped", o, e.Preempted, e.Dropped)
			// Except for the last token of a prompt, which is computed again for samples that begin later.
			require.Equal(t, o.CacheBytes == tight, e.Recomputed > len(want), "%+v: %d tokens", o, e.Recomputed)
			l := live(t, p, o)
			got := make([]Rollout, 0, len(want))
			var heard []*heard
			for _, r := range asked {
				h, on := listen(r)
				on.Token = nil
				_, err := l.Submit(r, on)
				require.NoError(t, err)
				heard = append(heard, h)
			}
			for i, h := range heard {
				for range asked[i].N {
					r := <-h.done
					r.Request, r.Cached = i, 0
					got = append(got, r)
				}
			}
			require.ElementsMatch(t, want, got, "%s, %+v", name, o)
		}
		w.late.Wait()
	}
}

// The cache is kept between turns: each token is computed once, and the last one, which nobody reads, never.
func TestAConversationIsComputedOnce(t *testing.T) {
	p := open(t, backend(t), "qwen3-tied", "adapter")
	w := &environment{vocab: p.Vocab, turns: 5}
	for _, samples := range []int{1, 3} {
		e := engine(t, p, Options{MaxLength: 320})
		r := Request{Prompt: []int32{5, 6, 7, 8, 9}, N: samples, Params: Params{Temperature: 1, MaxTokens: 7}, Next: w.next}
		computed := len(r.Prompt)
		for _, got := range sampleAll(t, e, []Request{r}) {
			require.Len(t, got.Turns, 5)
			computed += len(got.Tokens) - 1
		}
		require.Equal(t, computed, e.Computed-e.Drafted+e.Accepted)
		require.Zero(t, e.Recomputed+e.Preempted+e.Dropped)
	}
	w.late.Wait()
}

// A conversation that waits for a tool holds neither a slot nor memory: all others are done before the tool answers.
func TestASlowToolHoldsNobodyUp(t *testing.T) {
	p := open(t, backend(t), "qwen3-tied", "adapter")
	tight := int64(p.BlockBytes()) * int64(128/p.CacheBlock()+1)
	asked := requests(p.Vocab, 1, 7)
	slow := Request{Prompt: []int32{1, 2, 3}, N: 2, Params: Params{Temperature: 1, MaxTokens: 40}}
	more := More{Tokens: []int32{4, 5, 6}, MaxTokens: 20}
	var want []Rollout
	for _, o := range []Options{
		{MaxLength: 128, MaxSequences: 2, CacheBytes: 9 * tight},
		{MaxLength: 128, MaxSequences: 1, CacheBytes: tight},
		{MaxLength: 128, MaxSequences: 16, CacheBytes: tight},
	} {
		others, done := 0, make(chan struct{})
		slow.Next = func(sofar Rollout, reply func(More)) {
			if len(sofar.Turns) == 2 {
				reply(More{})
				return
			}
			go func() {
				<-done
				reply(more)
			}()
		}
		for _, r := range asked {
			others += r.N
		}
		e := engine(t, p, o)
		got, err := e.Sample(t.Context(), append([]Request{slow}, asked...), Events{Done: func(r Rollout) {
			if r.Request > 0 {
				if others--; others == 0 {
					close(done)
				}
			}
		}})
		require.NoError(t, err)
		require.Equal(t, e.Blocks, e.FreeBlocks())
		require.Equal(t, o.CacheBytes == tight, e.Dropped > 0)
		if want == nil {
			want = got
		}
		require.Equal(t, want, got)
	}
}

// replier stores the reply functions of waiting conversations.
type replier struct {
	came chan func(More)
}

func (r *replier) next(_ Rollout, reply func(More)) { r.came <- reply }

// Cancelling a request, or the end of a call, also ends conversations that wait for a reply; a later reply has no effect.
func TestRepliesMayComeTooLate(t *testing.T) {
	p := open(t, backend(t), "qwen3-tied", "")
	r := &replier{came: make(chan func(More), 2)}
	asked := Request{Prompt: []int32{1, 2}, N: 2, Params: Params{Temperature: 1, MaxTokens: 9}, Next: r.next}
	e := engine(t, p, Options{MaxLength: 64})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		reply := <-r.came
		reply(More{MaxTokens: 3})
		reply(More{}) // replied already
		r.came <- <-r.came
		cancel()
	}()
	_, err := e.Sample(ctx, []Request{asked}, Events{})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, e.Blocks, e.FreeBlocks())
	for len(r.came) > 0 {
		(<-r.came)(More{Tokens: []int32{1}, MaxTokens: 4})
	}
	sampleAll(t, e, []Request{{Prompt: asked.Prompt, N: 3, Params: asked.Params}})

	l, err := NewLive(p, Options{MaxLength: 64})
	require.NoError(t, err)
	h, on := listen(asked)
	ticket, err := l.Submit(asked, on)
	require.NoError(t, err)
	l.Close()
	ended := make(chan error)
	go func() { ended <- l.Run(t.Context()) }()
	first, second := <-r.came, <-r.came
	ticket.Cancel()
	for _, got := range h.wait(t, asked) {
		require.Equal(t, Cancelled, got.Finish)
		require.Equal(t, []Turn{{Start: 0, End: 9, Finish: Length}}, got.Turns)
	}
	first(More{Tokens: []int32{1}, MaxTokens: 4})
	second(More{})
	require.NoError(t, <-ended, "a Live that is closed ends with its last conversation")
	require.Equal(t, l.s.Blocks, l.s.FreeBlocks())
}

// An invalid reply ends only its own conversation, with the reason.
func TestBadRepliesEndTheirConversation(t *testing.T) {
	p := open(t, backend(t), "qwen3-tied", "")
	e := engine(t, p, Options{MaxLength: 64})
	for message, more := range map[string]More{
		"reply: token 384 at position 1, expected 0 to 383": {Tokens: []int32{1, 384}, MaxTokens: 1},

		"max_tokens of a turn: found 0 with a reply of 1 tokens, expected 1 or more, or 0 without a reply":  {Tokens: []int32{1}},
		"max_tokens of a turn: found -1 with a reply of 0 tokens, expected 1 or more, or 0 without a reply": {MaxTokens: -1},
		"max_tokens of a turn: found 9223372036854775807, expected at most 2147483647":                      {MaxTokens: math.MaxInt64},

		"7 tokens, a reply of 8 and max_tokens 50 make 65, more than the maximum length of 64": {make([]int32, 8), 50},
	} {
		fine := Request{Prompt: []int32{1, 2}, N: 1, Params: Params{MaxTokens: 5}}
		bad := fine
		bad.Next = func(_ Rollout, reply func(More)) { reply(more) }
		got := sampleAll(t, e, []Request{bad, fine})
		require.Equal(t, Failed, got[0].Finish)
		require.EqualError(t, got[0].Err, message)
		require.True(t, badinput.Is(got[0].Err))
		require.Equal(t, got[1].Tokens, got[0].Tokens)
		require.Equal(t, Length, got[1].Finish)
	}
}

// Stops and constraints start over with each turn, and log-probabilities keep their positions.
func TestEachTurnStartsAnew(t *testing.T) {
	p := open(t, backend(t), "qwen3-tied", "adapter")
	w := &environment{vocab: p.Vocab, turns: 3}
	watches := 0
	r := Request{Prompt: []int32{4, 5, 6}, N: 1, Raw: true, Top: 2, Next: w.next, Params: Params{Temperature: 1.2, MaxTokens: 6,
		Watch: func() func(int32) bool {
			watches++
			n := 0
			return func(int32) bool { n++; return n == 4 }
		}}}
	var made []*rising
	r.Constrain = func() Constraint {
		made = append(made, &rising{vocab: p.Vocab})
		return made[len(made)-1]
	}
	got := sampleAll(t, engine(t, p, Options{MaxLength: 192}), []Request{r})[0]
	w.late.Wait()
	require.Len(t, got.Turns, 3)
	require.Len(t, made, 3)
	require.Equal(t, 3, watches)
	require.Len(t, got.Raw, len(got.Tokens))
	require.Len(t, got.Top, len(got.Tokens))
	at := 0
	for i, turn := range got.Turns {
		require.LessOrEqual(t, turn.End-turn.Start, 4)
		require.Equal(t, turn.End-turn.Start == 4, turn.Finish == Stop)
		require.Equal(t, turn.End-turn.Start, made[i].came)
		require.True(t, slices.IsSorted(got.Tokens[turn.Start:turn.End]))
		for k := at; k < turn.End; k++ {
			require.Equal(t, k >= turn.Start, got.Top[k] != nil)
			require.Equal(t, k >= turn.Start, got.Raw[k] != 0)
		}
		at = turn.End
	}
}
