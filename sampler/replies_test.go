package sampler

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A reply that exactly fills a sequence is accepted.
func TestAReplyThatFits(t *testing.T) {
	r := Request{Prompt: []int32{1, 2}, N: 1, Params: Params{MaxTokens: 5}}
	r.Next = func(sofar Rollout, reply func(More)) {
		if len(sofar.Turns) == 1 {
			reply(More{make([]int32, 8), 64 - 7 - 8})
		} else {
			reply(More{})
		}
	}
	got := sampleAll(t, engine(t, open(t, backend(t), "qwen3-tied", ""), Options{MaxLength: 64}), []Request{r})[0]
	require.NoError(t, got.Err)
	require.Equal(t, []Turn{{0, 5, Length}, {13, 62, Length}}, got.Turns)
}

// A repeated reply to an earlier turn, while the next one waits, is ignored.
func TestAReplyToAnEarlierTurn(t *testing.T) {
	r := Request{Prompt: []int32{1, 2}, N: 1, Params: Params{MaxTokens: 5}}
	var first func(More)
	r.Next = func(sofar Rollout, reply func(More)) {
		if len(sofar.Turns) == 1 {
			first = reply
			reply(More{[]int32{7, 8}, 4})
			return
		}
		first(More{[]int32{9}, 3})
		reply(More{})
	}
	got := sampleAll(t, engine(t, open(t, backend(t), "qwen3-tied", ""), Options{MaxLength: 64}), []Request{r})[0]
	require.Equal(t, []Turn{{0, 5, Length}, {7, 11, Length}}, got.Turns)
	require.Len(t, got.Tokens, 11)
}

// A conversation that ends before anything is drawn has no turn.
func TestATurnOfNothingIsNone(t *testing.T) {
	l, err := NewLive(open(t, backend(t), "qwen3-tied", ""), Options{MaxLength: 64})
	require.NoError(t, err)
	r := Request{Prompt: []int32{1, 2}, N: 1, Params: Params{MaxTokens: 5}, Next: func(Rollout, func(More)) {}}
	h, on := listen(r)
	ticket, err := l.Submit(r, on)
	require.NoError(t, err)
	ticket.Cancel()
	l.Close()
	require.NoError(t, l.Run(t.Context()))
	got := <-h.done
	require.Equal(t, Cancelled, got.Finish)
	require.Empty(t, got.Turns)
}
